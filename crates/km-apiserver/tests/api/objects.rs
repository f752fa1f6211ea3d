//! Creating and changing objects.

use serde_json::json;

use crate::harness::{CONFIG_MAPS, DEPLOYMENTS, PODS, TestServer, config_map, deployment, pod};

#[tokio::test]
async fn the_server_owns_part_of_the_metadata() {
    let server = TestServer::start().await;
    let mut object = pod("p");
    object["metadata"]["uid"] = "mine".into();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["generation"] = 7.into();
    object["status"] = json!({ "phase": "Running" });
    let created = server.create(PODS, &object).await;
    assert_ne!(created["metadata"]["uid"], "mine");
    assert_ne!(created["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(created["status"]["qosClass"], "BestEffort");
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    assert_eq!(server.get(&format!("{PODS}/p")).await, (200, created));
}

#[tokio::test]
async fn names_are_generated() {
    let server = TestServer::start().await;
    let mut object = config_map("", "1");
    object["metadata"] = json!({ "generateName": "made-" });
    let first = server.create(CONFIG_MAPS, &object).await["metadata"]["name"].as_str().unwrap().to_owned();
    let second = server.create(CONFIG_MAPS, &object).await["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(first.starts_with("made-") && first.len() == "made-".len() + 5, "{first}");
    assert_ne!(first, second);
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_alone() {
    let server = TestServer::start().await;
    let created = server.create(DEPLOYMENTS, &deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let version = |object: &serde_json::Value| object["metadata"]["resourceVersion"].clone();
    let (_, labelled) = server.patch(&path, "merge", &json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!(labelled["metadata"]["generation"], 1);
    assert_ne!(version(&labelled), version(&created));
    let (_, scaled) = server.patch(&path, "merge", &json!({ "spec": { "replicas": 5 } })).await;
    assert_eq!(scaled["metadata"]["generation"], 2);
    // A write that changes nothing is none.
    let (code, same) = server.patch(&path, "merge", &json!({ "spec": { "replicas": 5 } })).await;
    assert_eq!((code, &same), (200, &scaled));
    assert_eq!(server.put(&path, &scaled).await, (200, scaled.clone()));
    // The main resource leaves the status alone, the subresource everything else.
    let mut both = scaled.clone();
    both["status"] = json!({ "replicas": 5 });
    both["spec"]["replicas"] = 6.into();
    let (_, status) = server.put(&format!("{path}/status"), &both).await;
    assert_eq!((&status["status"]["replicas"], &status["spec"]["replicas"]), (&json!(5), &json!(5)));
    assert_eq!(status["metadata"]["generation"], 2);
    let (_, whole) = server.patch(&path, "merge", &json!({ "status": { "replicas": 9 } })).await;
    assert_eq!(whole, status);
}

#[tokio::test]
async fn the_three_patches() {
    let server = TestServer::start().await;
    server.create(DEPLOYMENTS, &deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let side = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "side", "image": "s" }] } } } });
    let (_, strategic) = server.patch(&path, "strategic-merge", &side).await;
    let names = |object: &serde_json::Value| -> Vec<String> {
        let list = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        list.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut both = names(&strategic);
    both.sort();
    assert_eq!(both, ["main", "side"], "a strategic patch merges lists by name");
    let (_, merged) = server.patch(&path, "merge", &side).await;
    assert_eq!(names(&merged), ["side"], "a merge patch replaces lists");
    let (_, json) =
        server.patch(&path, "json", &json!([{ "op": "replace", "path": "/spec/replicas", "value": 9 }])).await;
    assert_eq!(json["spec"]["replicas"], 9);
}

#[tokio::test]
async fn dry_runs_leave_nothing() {
    let server = TestServer::start().await;
    let before = server.get(CONFIG_MAPS).await.1["metadata"]["resourceVersion"].clone();
    let (code, made) = server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("c", "1")).await;
    assert_eq!((code, &made["data"]["key"]), (201, &json!("1")));
    let after = server.get(CONFIG_MAPS).await.1;
    assert_eq!(after["metadata"]["resourceVersion"], before);
    assert_eq!(after["items"], json!([]));
    server.create(CONFIG_MAPS, &config_map("c", "1")).await;
    let path = format!("{CONFIG_MAPS}/c?dryRun=All");
    assert_eq!(server.patch(&path, "merge", &json!({ "data": { "key": "2" } })).await.1["data"]["key"], "2");
    assert_eq!(server.delete(&path).await.0, 200);
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/c")).await.1["data"]["key"], "1");
}

#[tokio::test]
async fn some_kinds_are_made_by_put() {
    let server = TestServer::start().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "n" },
        "spec": { "holderIdentity": "me" },
    });
    assert_eq!(server.put(path, &lease).await.0, 201);
    assert_eq!(server.put(path, &lease).await.0, 200);
}

#[tokio::test]
async fn events_have_two_spellings() {
    let server = TestServer::start().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" },
        "eventTime": "2026-01-02T03:04:05.000000Z", "action": "Try", "reason": "Tried", "note": "it was tried",
        "type": "Normal", "reportingController": "test", "reportingInstance": "test-1",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
    });
    server.create("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp,reason%3DTried";
    let (_, list) = server.get(path).await;
    assert_eq!(list["items"][0]["message"], "it was tried");
    assert_eq!(list["items"][0]["apiVersion"], "v1");
    let (_, same) = server.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await;
    assert_eq!((&same["note"], &same["apiVersion"]), (&json!("it was tried"), &json!("events.k8s.io/v1")));
}

#[tokio::test]
async fn concurrent_writers_lose_nothing() {
    let server = std::sync::Arc::new(TestServer::start().await);
    let mut counter = config_map("counter", "0");
    counter["data"] = json!({});
    server.create(CONFIG_MAPS, &counter).await;
    let writers = (0..8).map(|writer| {
        let server = server.clone();
        tokio::spawn(async move {
            let patch = json!({ "data": { format!("w{writer}"): "done" } });
            server.patch(&format!("{CONFIG_MAPS}/counter"), "merge", &patch).await.0
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap(), 200);
    }
    let (_, object) = server.get(&format!("{CONFIG_MAPS}/counter")).await;
    assert_eq!(object["data"].as_object().unwrap().len(), 8);
}
