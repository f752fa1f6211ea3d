//! Who may come in.

use crate::harness::{TestServer, assert_status, client};
use tempfile::TempDir;

#[tokio::test]
async fn strangers_see_only_what_is_public() {
    let server = TestServer::start().await;
    let nobody = client(server.directory.path(), None);
    // A certificate of another cluster's authority.
    let elsewhere = TempDir::new().unwrap();
    let pki = km_apiserver::Pki::ensure(&elsewhere.path().join("pki")).unwrap();
    let pair = pki.client("admin", &["system:masters"]).unwrap();
    let own = km_apiserver::Pki::ensure(&server.directory.path().join("pki")).unwrap();
    let foreign = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(own.authority().as_bytes()).unwrap()])
        .identity(reqwest::Identity::from_pem(format!("{}{}", pair.certificate, pair.key).as_bytes()).unwrap())
        .build()
        .unwrap();
    for client in [nobody, foreign] {
        for path in ["/api/v1/pods", "/api", "/metrics", "/openapi/v3"] {
            let answer = server.send(client.get(format!("{}{path}", server.url))).await;
            assert_status(&answer, 401, "Unauthorized", "Unauthorized");
        }
        for path in ["/version", "/version/", "/healthz", "/livez", "/readyz"] {
            assert_eq!(server.send(client.get(format!("{}{path}", server.url))).await.0, 200, "{path}");
        }
    }
}

#[tokio::test]
async fn both_http_versions_are_spoken() {
    let server = TestServer::start().await;
    let response = server.request(reqwest::Method::GET, "/version").send().await.unwrap();
    assert_eq!(response.version(), reqwest::Version::HTTP_2);
    let pki = km_apiserver::Pki::ensure(&server.directory.path().join("pki")).unwrap();
    let old = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(pki.authority().as_bytes()).unwrap()])
        .http1_only()
        .build()
        .unwrap();
    let response = old.get(format!("{}/version", server.url)).send().await.unwrap();
    assert_eq!(response.version(), reqwest::Version::HTTP_11);
    assert_eq!(response.json::<serde_json::Value>().await.unwrap()["major"], "1");
}
