//! What the server says about itself.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::TestServer;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn both_forms_tell_the_same() {
    let server = TestServer::start().await;
    let mut aggregated = Vec::new();
    for path in ["/api", "/apis"] {
        let accept = format!(
            "{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
        );
        let response = server.request(Method::GET, path).header("Accept", accept).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], AGGREGATED);
        let etag = response.headers()["etag"].clone();
        let document: Value = response.json().await.unwrap();
        for item in document["items"].as_array().unwrap() {
            for version in item["versions"].as_array().unwrap() {
                for resource in version["resources"].as_array().unwrap() {
                    aggregated.push(format!(
                        "{}/{}/{} {}",
                        item["metadata"]["name"].as_str().unwrap_or_default(),
                        version["version"],
                        resource["resource"],
                        resource["responseKind"]["kind"]
                    ));
                }
            }
        }
        let again = server.request(Method::GET, path).header("Accept", AGGREGATED).header("If-None-Match", etag);
        assert_eq!(again.send().await.unwrap().status(), 304);
    }
    let mut legacy = Vec::new();
    let (_, groups) = server.get("/apis").await;
    let mut versions = vec![("".to_owned(), "v1".to_owned(), "/api/v1".to_owned())];
    for group in groups["groups"].as_array().unwrap() {
        let preferred = &group["preferredVersion"];
        let (name, version) = (group["name"].as_str().unwrap(), preferred["version"].as_str().unwrap());
        versions.push((
            name.to_owned(),
            version.to_owned(),
            format!("/apis/{}", preferred["groupVersion"].as_str().unwrap()),
        ));
    }
    for (group, version, path) in versions {
        let (code, list) = server.get(&path).await;
        assert_eq!((code, &list["kind"]), (200, &json!("APIResourceList")));
        for resource in list["resources"].as_array().unwrap() {
            if !resource["name"].as_str().unwrap().contains('/') {
                legacy.push(format!("{group}/{:?}/{} {}", version, resource["name"], resource["kind"]));
            }
        }
    }
    aggregated.sort();
    legacy.sort();
    assert_eq!(aggregated, legacy);
    for kind in ["/\"v1\"/\"pods\" \"Pod\"", "apps/\"v1\"/\"deployments\" \"Deployment\""] {
        assert!(legacy.iter().any(|one| one == kind), "{legacy:?}");
    }
}

#[tokio::test]
async fn the_schema_says_what_patches_take() {
    let server = TestServer::start().await;
    let (_, index) = server.get("/openapi/v3").await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let response = server.request(Method::GET, url).send().await.unwrap();
    assert_eq!(response.headers()["cache-control"], "public, immutable");
    let document: Value = response.json().await.unwrap();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let parameters: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
    assert!(parameters.contains(&"fieldValidation") && parameters.contains(&"dryRun"));
    assert!(document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
}

/// Without it kubectl calls a manifest of a kind that is not there a failure of the server.
#[tokio::test]
async fn the_older_schema_is_there_and_names_nothing() {
    let server = TestServer::start().await;
    let (code, document) = server.get("/openapi/v2").await;
    assert_eq!((code, &document["swagger"], &document["paths"]), (200, &json!("2.0"), &json!({})));
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let response = server.request(Method::GET, "/openapi/v2").header("Accept", accept).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    assert_eq!(response.bytes().await.unwrap().as_ref(), b"\x0a\x032.0");
}

#[tokio::test]
async fn health_version_and_metrics() {
    let server = TestServer::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/readyz/store"] {
        assert_eq!(server.get(path).await, (200, json!("ok")), "{path}");
    }
    for check in ["livez", "readyz"] {
        let (_, report) = server.get(&format!("/{check}?verbose")).await;
        assert!(report.as_str().unwrap().contains("[+]ping ok"), "{check}: {report}");
    }
    assert!(server.get("/readyz?verbose").await.1.as_str().unwrap().contains("[+]store ok"));
    let (_, version) = server.get("/version/").await;
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("37")));
    server.get("/api/v1/pods").await;
    let (_, metrics) = server.get("/metrics").await;
    let line = r#"apiserver_request_total{verb="LIST",resource="pods",code="200"} 1"#;
    assert!(metrics.as_str().unwrap().contains(line), "{metrics}");
}
