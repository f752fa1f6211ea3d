//! Grace periods, finalizers, namespaces.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, DEPLOYMENTS, PODS, TestServer, assert_status, config_map, deployment, pod};

async fn bind(server: &TestServer, name: &str) {
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "target": { "name": "node-1" } });
    assert_eq!(server.post(&format!("{PODS}/{name}/binding"), &binding).await.0, 201);
}

async fn delete_with(server: &TestServer, path: &str, options: Value) -> (u16, Value) {
    server.send(server.request(Method::DELETE, path).json(&options)).await
}

#[tokio::test]
async fn a_pod_on_a_node_gets_its_grace() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("p")).await;
    bind(&server, "p").await;
    let path = format!("{PODS}/p");
    let (code, marked) = server.delete(&path).await;
    assert_eq!((code, &marked["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(30)));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    // Again, longer: nothing changes. Shorter: less is left.
    let (_, longer) = delete_with(&server, &path, json!({ "gracePeriodSeconds": 60 })).await;
    assert_eq!(longer, marked);
    let (_, shorter) = delete_with(&server, &path, json!({ "gracePeriodSeconds": 5 })).await;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(shorter["metadata"]["deletionTimestamp"].as_str() < marked["metadata"]["deletionTimestamp"].as_str());
    // A kubelet ends it, if it means this pod and not one of the same name.
    let wrong = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": "another" } });
    assert_status(&delete_with(&server, &path, wrong).await, 409, "Conflict", "UID in precondition: another");
    let right = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": marked["metadata"]["uid"] } });
    assert_eq!(delete_with(&server, &path, right).await.0, 200);
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test]
async fn who_needs_no_grace_gets_none() {
    let server = TestServer::start().await;
    for name in ["pending", "finished", "forced"] {
        server.create(PODS, &pod(name)).await;
    }
    for name in ["finished", "forced"] {
        bind(&server, name).await;
    }
    server.patch(&format!("{PODS}/finished/status"), "merge", &json!({ "status": { "phase": "Succeeded" } })).await;
    assert_eq!(server.delete(&format!("{PODS}/pending")).await.0, 200);
    assert_eq!(server.delete(&format!("{PODS}/finished")).await.0, 200);
    assert_eq!(server.delete(&format!("{PODS}/forced?gracePeriodSeconds=0")).await.0, 200);
    assert_eq!(server.get(PODS).await.1["items"], json!([]));
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let server = TestServer::start().await;
    let mut object = config_map("c", "1");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.create(CONFIG_MAPS, &object).await;
    let path = format!("{CONFIG_MAPS}/c");
    let (code, marked) = server.delete(&path).await;
    assert_eq!(code, 200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let more = json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } });
    assert_status(&server.patch(&path, "merge", &more).await, 422, "Invalid", "no new finalizers can be added");
    assert_eq!(server.patch(&path, "merge", &json!({ "metadata": { "finalizers": null } })).await.0, 200);
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test]
async fn propagation_is_told_by_finalizers() {
    let server = TestServer::start().await;
    for (policy, finalizer) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
        server.create(DEPLOYMENTS, &deployment("d")).await;
        let path = format!("{DEPLOYMENTS}/d");
        let (_, marked) = delete_with(&server, &path, json!({ "propagationPolicy": policy })).await;
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        server.patch(&path, "merge", &json!({ "metadata": { "finalizers": [] } })).await;
        assert_eq!(server.get(&path).await.0, 404);
    }
    server.create(DEPLOYMENTS, &deployment("d")).await;
    let (code, status) =
        delete_with(&server, &format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Background" })).await;
    assert_eq!((code, &status["status"], &status["details"]["kind"]), (200, &json!("Success"), &json!("deployments")));
    let answer = server.delete(&format!("{DEPLOYMENTS}/d?propagationPolicy=Sideways")).await;
    assert_status(&answer, 422, "Invalid", "propagationPolicy");
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let server = TestServer::start().await;
    for name in ["a", "b", "c"] {
        server.create(PODS, &pod(name)).await;
    }
    let (code, list) = server.delete(&format!("{PODS}?labelSelector=app+in+(a,b)")).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    assert_eq!(server.get(PODS).await.1["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_namespace_goes_when_it_is_finalized() {
    let server = TestServer::start().await;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } });
    let created = server.create("/api/v1/namespaces", &namespace).await;
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!(created["status"]["phase"], "Active");
    let path = "/api/v1/namespaces/n";
    let (_, marked) = server.delete(path).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let answer = server.post("/api/v1/namespaces/n/configmaps", &config_map("c", "1")).await;
    assert_status(&answer, 403, "Forbidden", "because it is being terminated");
    assert_eq!(answer.1["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut finalized = marked.clone();
    finalized["spec"]["finalizers"] = json!([]);
    assert_eq!(server.put(&format!("{path}/finalize"), &finalized).await.0, 200);
    assert_eq!(server.get(path).await.0, 404);
}
