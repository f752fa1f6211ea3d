//! A server on a free port with a directory of its own, and a client with the admin's certificate.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use km_apiserver::{Flags, Pki, pki::MASTERS};
use km_observe::Started;
use reqwest::{Certificate, Client, Identity, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Nothing in these tests takes as long as this, so whoever waits so long waits for ever.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct TestServer {
    pub url: String,
    pub client: Client,
    pub directory: TempDir,
    stop: CancellationToken,
    started: Option<Started>,
}

pub fn flags(directory: &Path) -> Flags {
    Flags {
        data_dir: directory.to_owned(),
        bind_address: Ipv4Addr::LOCALHOST.into(),
        secure_port: 0,
        ..Flags::default()
    }
}

impl TestServer {
    pub async fn start() -> Self {
        Self::start_in(TempDir::new().unwrap()).await
    }

    async fn start_in(directory: TempDir) -> Self {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let stop = CancellationToken::new();
        let started = km_apiserver::start(flags(directory.path()), stop.clone()).await.unwrap();
        let url = format!("https://{}", started.address);
        let client = client(directory.path(), Some(("admin", &[MASTERS])));
        Self { url, client, directory, stop, started: Some(started) }
    }

    /// Stops and starts again on the same directory.
    pub async fn restart(mut self) -> Self {
        self.stop.cancel();
        let started = self.started.take().unwrap();
        tokio::time::timeout(PATIENCE, started.join()).await.unwrap().unwrap();
        Self::start_in(self.directory).await
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Sends a request and reads a JSON answer.
    pub async fn send(&self, request: RequestBuilder) -> (u16, Value) {
        let response = tokio::time::timeout(PATIENCE, request.send()).await.unwrap().unwrap();
        let code = response.status().as_u16();
        let text = response.text().await.unwrap();
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (code, value)
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// `kind` is `json`, `merge` or `strategic-merge`.
    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let content_type = format!("application/{kind}-patch+json");
        let request = self.request(Method::PATCH, path).header("Content-Type", content_type).body(body.to_string());
        self.send(request).await
    }

    /// Creates an object that must be created.
    pub async fn create(&self, path: &str, body: &Value) -> Value {
        let (code, created) = self.post(path, body).await;
        assert_eq!(code, 201, "{created}");
        created
    }
}

/// A client that trusts the cluster, with a certificate for user and groups or none.
pub fn client(directory: &Path, user: Option<(&str, &[&str])>) -> Client {
    let pki = Pki::ensure(&directory.join("pki")).unwrap();
    let builder = Client::builder().tls_certs_only([Certificate::from_pem(pki.authority().as_bytes()).unwrap()]);
    let Some((user, groups)) = user else { return builder.build().unwrap() };
    let pair = pki.client(user, groups).unwrap();
    let identity = Identity::from_pem(format!("{}{}", pair.certificate, pair.key).as_bytes()).unwrap();
    builder.identity(identity).build().unwrap()
}

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
    })
}

pub fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "key": value } })
}

pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
            },
        },
    })
}

/// Checks a Status: code, reason and a part of the message.
pub fn assert_status(answer: &(u16, Value), code: u16, reason: &str, message: &str) {
    let (got, status) = answer;
    assert_eq!(*got, code, "{status}");
    assert_eq!(status["kind"], "Status", "{status}");
    assert_eq!(status["status"], "Failure", "{status}");
    assert_eq!(status["code"], code, "{status}");
    assert_eq!(status["reason"], reason, "{status}");
    assert!(status["message"].as_str().unwrap().contains(message), "{status} without {message:?}");
}
