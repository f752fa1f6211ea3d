//! Cluster IPs and node ports.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{SERVICES, TestServer, assert_status};

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
        "spec": { "selector": { "app": "x" }, "ports": [{ "port": 80 }] },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

#[tokio::test]
async fn the_server_is_a_service() {
    let server = TestServer::start().await;
    let (_, service) = server.get(&format!("{SERVICES}/kubernetes")).await;
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let (_, endpoints) = server.get("/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "127.0.0.1");
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], port);
    let server = server.restart().await;
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let (_, slice) = server.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await;
    assert_eq!(slice["ports"][0]["port"], port, "brought up to date at each start");
    assert_eq!(server.get(&format!("{SERVICES}/kubernetes")).await.1["spec"]["clusterIP"], "10.96.0.1");
}

#[tokio::test]
async fn addresses_and_ports_are_given_once() {
    let server = std::sync::Arc::new(TestServer::start().await);
    let tasks: Vec<_> = (0..12)
        .map(|number| {
            let server = server.clone();
            tokio::spawn(async move {
                server.create(SERVICES, &service(&format!("s{number}"), json!({ "type": "NodePort" }))).await
            })
        })
        .collect();
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    for task in tasks {
        let made = task.await.unwrap();
        assert!(addresses.insert(made["spec"]["clusterIP"].as_str().unwrap().to_owned()), "{made}");
        assert!(ports.insert(made["spec"]["ports"][0]["nodePort"].as_u64().unwrap()), "{made}");
    }
    assert!(ports.iter().all(|port| (30000..=32767).contains(port)));
    // Still so after a restart.
    let server = std::sync::Arc::into_inner(server).unwrap().restart().await;
    let taken = addresses.iter().next().unwrap();
    let answer = server.post(SERVICES, &service("again", json!({ "clusterIP": taken }))).await;
    assert_status(&answer, 422, "Invalid", "already allocated");
    let taken = ports.iter().next().unwrap();
    let spec = json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": taken }] });
    assert_status(&server.post(SERVICES, &service("again", spec)).await, 422, "Invalid", "already allocated");
    assert_eq!(server.delete(&format!("{SERVICES}/s3")).await.0, 200);
}

#[tokio::test]
async fn what_a_service_asks_for() {
    let server = TestServer::start().await;
    let fixed = server.create(SERVICES, &service("fixed", json!({ "clusterIP": "10.96.0.10" }))).await;
    assert_eq!(fixed["spec"]["clusterIPs"], json!(["10.96.0.10"]));
    let headless = server.create(SERVICES, &service("headless", json!({ "clusterIP": "None" }))).await;
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let answer = server.post(SERVICES, &service("out", json!({ "clusterIP": "10.97.0.1" }))).await;
    assert_status(&answer, 422, "Invalid", "not in the valid range");
    let spec = json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 80 }] });
    assert_status(&server.post(SERVICES, &service("out", spec)).await, 422, "Invalid", "30000-32767");
    // A change keeps what was given, and another type gives or takes ports.
    let path = format!("{SERVICES}/fixed");
    let (_, open) = server.patch(&path, "merge", &json!({ "spec": { "type": "NodePort" } })).await;
    let port = open["spec"]["ports"][0]["nodePort"].clone();
    assert!(port.is_u64());
    let (_, same) = server.put(&path, &service("fixed", json!({ "type": "NodePort" }))).await;
    assert_eq!((&same["spec"]["clusterIP"], &same["spec"]["ports"][0]["nodePort"]), (&json!("10.96.0.10"), &port));
    let (_, closed) = server.patch(&path, "merge", &json!({ "spec": { "type": "ClusterIP" } })).await;
    assert!(closed["spec"]["ports"][0].get("nodePort").is_none());
}
