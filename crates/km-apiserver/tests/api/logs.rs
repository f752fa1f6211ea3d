//! Logs, from a kubelet that is played here.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::Request};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::{PODS, TestServer, assert_status, pod};

/// Answers everything with a text, and keeps the paths it was asked for. Its certificate is from nobody's authority.
async fn kubelet() -> (u16, Arc<Mutex<Vec<String>>>) {
    let elsewhere = tempfile::TempDir::new().unwrap();
    let pki = km_apiserver::Pki::ensure(elsewhere.path()).unwrap();
    let (certificates, key) = pki.server("kubelet", &["127.0.0.1".to_owned()]).unwrap().for_rustls().unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key).unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    let router = Router::new().fallback(move |request: Request| {
        kept.lock().unwrap().push(request.uri().to_string());
        async { "line 1\nline 2\n" }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = tls.accept(stream).await else { continue };
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let _ended =
                    auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, asked)
}

#[tokio::test]
async fn logs_come_from_the_kubelet_of_the_node() {
    let server = TestServer::start().await;
    let (port, asked) = kubelet().await;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    server.create("/api/v1/nodes", &node).await;
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
    } });
    assert_eq!(server.patch("/api/v1/nodes/n/status", "merge", &status).await.0, 200);
    server.create(PODS, &pod("p")).await;
    let path = format!("{PODS}/p/log");
    assert_status(&server.get(&path).await, 400, "BadRequest", "container \"main\" in pod \"p\" is waiting to start");
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "target": { "name": "n" } });
    server.post(&format!("{PODS}/p/binding"), &binding).await;
    assert_status(&server.get(&path).await, 400, "BadRequest", "is waiting to start: ContainerCreating");
    let running = json!({ "status": { "containerStatuses": [
        { "name": "main", "image": "busybox", "imageID": "", "ready": true, "restartCount": 0,
          "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } },
    ] } });
    assert_eq!(server.patch(&format!("{PODS}/p/status"), "merge", &running).await.0, 200);
    let answer = server.get(&format!("{path}?tailLines=5&follow=true&previous=false&nonsense=1")).await;
    assert_eq!(answer, (200, json!("line 1\nline 2\n")));
    assert_eq!(*asked.lock().unwrap(), ["/containerLogs/default/p/main?follow=true&previous=false&tailLines=5"],);
    assert_status(
        &server.get(&format!("{path}?container=x")).await,
        400,
        "BadRequest",
        "container x is not valid for pod p",
    );
    assert_status(&server.get(&format!("{PODS}/nope/log")).await, 404, "NotFound", "pods \"nope\" not found");
}
