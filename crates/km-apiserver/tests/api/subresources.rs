//! Scale, binding, resize, eviction.

use serde_json::json;

use crate::harness::{DEPLOYMENTS, PODS, TestServer, assert_status, deployment, pod};

#[tokio::test]
async fn scale_reads_and_sets_replicas() {
    let server = TestServer::start().await;
    server.create(DEPLOYMENTS, &deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let (_, mut scale) = server.get(&path).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    assert_eq!(scale["status"]["selector"], "app=d");
    scale["spec"]["replicas"] = 4.into();
    assert_eq!(server.put(&path, &scale).await.1["spec"]["replicas"], 4);
    assert_status(&server.put(&path, &scale).await, 409, "Conflict", "has been modified");
    let (_, patched) = server.patch(&path, "merge", &json!({ "spec": { "replicas": 0 } })).await;
    assert_eq!(patched["spec"]["replicas"], 0);
    let (_, object) = server.get(&format!("{DEPLOYMENTS}/d")).await;
    assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(0), &json!(3)));
    let answer = server.patch(&path, "merge", &json!({ "spec": { "replicas": -1 } })).await;
    assert_status(&answer, 422, "Invalid", "spec.replicas");
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("p")).await;
    let path = format!("{PODS}/p/binding");
    let to = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": "p", "annotations": { "example.com/task": "t" } }, "target": { "name": node },
        })
    };
    assert_status(&server.post(&path, &to("")).await, 422, "Invalid", "target.name");
    let (code, status) = server.post(&path, &to("n1")).await;
    assert_eq!((code, &status["status"]), (201, &json!("Success")));
    assert_status(&server.post(&path, &to("n2")).await, 409, "Conflict", "already assigned to node \"n1\"");
    let (_, bound) = server.get(&format!("{PODS}/p")).await;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["annotations"]["example.com/task"], "t");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let answer = server.post(&format!("{PODS}/nope/binding"), &to("n1")).await;
    assert_status(&answer, 404, "NotFound", "pods \"nope\" not found");
}

#[tokio::test]
async fn a_resize_changes_cpu_and_memory_only() {
    let server = TestServer::start().await;
    let resources = |cpu: &str, limit: &str| json!({ "requests": { "cpu": cpu }, "limits": { "cpu": limit } });
    let mut object = pod("p");
    object["spec"]["containers"][0]["resources"] = resources("100m", "200m");
    let created = server.create(PODS, &object).await;
    let name = created["spec"]["containers"][0]["name"].clone();
    let path = format!("{PODS}/p/resize");
    let container = |resources| json!({ "name": name, "image": "other", "resources": resources });
    let patch =
        |resources| json!({ "spec": { "containers": [container(resources)] }, "status": { "phase": "Failed" } });
    let (code, resized) = server.patch(&path, "strategic-merge", &patch(resources("150m", "300m"))).await;
    assert_eq!(code, 200, "{resized}");
    let mut wanted = created.clone();
    wanted["spec"]["containers"][0]["resources"] = resources("150m", "300m");
    wanted["metadata"]["generation"] = 2.into();
    wanted["metadata"]["resourceVersion"] = resized["metadata"]["resourceVersion"].clone();
    assert_eq!(resized, wanted, "nothing but the resources changes");
    assert_eq!(server.get(&path).await.1, server.get(&format!("{PODS}/p")).await.1);
    wanted["spec"]["containers"][0]["resources"] = resources("150m", "250m");
    assert_eq!(server.put(&path, &wanted).await.1["metadata"]["generation"], 3);
    let answer = server.patch(&path, "strategic-merge", &patch(resources("300m", "250m"))).await;
    assert_status(&answer, 422, "Invalid", "must be less than or equal to cpu limit");
    let answer = server.patch(&path, "strategic-merge", &patch(resources("250m", "250m"))).await;
    assert_eq!(answer.0, 200, "{}", answer.1);
    let removed = json!({ "spec": { "containers": [{ "name": name, "resources": { "limits": { "cpu": null } } }] } });
    let answer = server.patch(&path, "strategic-merge", &removed).await;
    assert_status(&answer, 422, "Invalid", "resource limits cannot be removed");
    let (_, discovered) = server.get("/api/v1").await;
    let found = discovered["resources"].as_array().unwrap().iter().any(|one| one["name"] == "pods/resize");
    assert!(found, "{discovered}");
}

#[tokio::test]
async fn an_eviction_asks_the_budget() {
    let server = TestServer::start().await;
    let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    for name in ["a", "b"] {
        let mut object = pod(name);
        object["metadata"]["labels"] = json!({ "app": "guarded" });
        server.create(PODS, &object).await;
        server.patch(&format!("{PODS}/{name}/status"), "merge", &ready).await;
    }
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "budget" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
    });
    server.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "a" } });
    assert_eq!(server.post(&format!("{PODS}/a/eviction"), &eviction).await.0, 201);
    assert_eq!(server.get(&format!("{PODS}/a")).await.0, 404, "it was on no node, so it is gone at once");
    let answer = server.post(&format!("{PODS}/b/eviction"), &eviction).await;
    assert_status(&answer, 429, "TooManyRequests", "would violate the pod's disruption budget");
    assert_eq!(answer.1["details"]["causes"][0]["reason"], "DisruptionBudget");
}
