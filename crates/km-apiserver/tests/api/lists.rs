//! Lists: selectors, pages, versions, tables.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, DEPLOYMENTS, PODS, TestServer, assert_status, config_map, deployment, pod};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn selectors_choose() {
    let server = TestServer::start().await;
    for name in ["a", "b", "c"] {
        server.create(PODS, &pod(name)).await;
    }
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "target": { "name": "node-1" } });
    assert_eq!(server.post(&format!("{PODS}/b/binding"), &binding).await.0, 201);
    for (query, expected) in [
        ("", vec!["a", "b", "c"]),
        ("labelSelector=app%3Da", vec!["a"]),
        ("labelSelector=app+in+(a,c)", vec!["a", "c"]),
        ("labelSelector=app!%3Da", vec!["b", "c"]),
        ("labelSelector=!app", vec![]),
        ("fieldSelector=metadata.name%3Dc", vec!["c"]),
        ("fieldSelector=spec.nodeName%3Dnode-1", vec!["b"]),
        ("fieldSelector=spec.nodeName%3D", vec!["a", "c"]),
        ("fieldSelector=spec.nodeName!%3D,status.phase%3DPending", vec!["b"]),
    ] {
        let (code, list) = server.get(&format!("{PODS}?{query}")).await;
        assert_eq!((code, names(&list)), (200, expected.iter().map(|name| (*name).to_owned()).collect()), "{query}");
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PodList"), &json!("v1")));
    }
}

#[tokio::test]
async fn pages_are_of_one_version_and_cover_everything_once() {
    let server = TestServer::start().await;
    for number in 0..7 {
        server.create(CONFIG_MAPS, &config_map(&format!("c{number}"), "1")).await;
    }
    let mut seen = Vec::new();
    let mut versions = BTreeSet::new();
    let mut token = String::new();
    loop {
        let (code, list) = server.get(&format!("{CONFIG_MAPS}?limit=3&continue={token}")).await;
        assert_eq!(code, 200, "{list}");
        seen.extend(names(&list));
        versions.insert(list["metadata"]["resourceVersion"].to_string());
        server.create(CONFIG_MAPS, &config_map(&format!("c3{}", seen.len()), "later")).await;
        match list["metadata"]["continue"].as_str() {
            Some(next) => {
                assert_eq!(list["metadata"]["remainingItemCount"], 7 - seen.len());
                token = next.to_owned();
            }
            None => break,
        }
    }
    assert_eq!(seen, (0..7).map(|number| format!("c{number}")).collect::<Vec<_>>());
    assert_eq!(versions.len(), 1);
    assert_status(&server.get(&format!("{CONFIG_MAPS}?continue=nonsense")).await, 400, "BadRequest", "continue");
    let answer = server.get(&format!("{CONFIG_MAPS}?resourceVersion=5&continue={token}")).await;
    assert_status(&answer, 400, "BadRequest", "not allowed when using continue");
}

#[tokio::test]
async fn versions_of_lists() {
    let server = TestServer::start().await;
    let first = server.create(CONFIG_MAPS, &config_map("a", "1")).await["metadata"]["resourceVersion"].clone();
    let first = first.as_str().unwrap().to_owned();
    server.create(CONFIG_MAPS, &config_map("b", "1")).await;
    for (query, expected) in [
        ("resourceVersion=0".to_owned(), 2),
        (format!("resourceVersion={first}"), 2),
        (format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan"), 2),
        (format!("resourceVersion={first}&resourceVersionMatch=Exact"), 1),
        (format!("resourceVersion={first}&limit=9"), 1),
    ] {
        let (code, list) = server.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!((code, names(&list).len()), (200, expected), "{query}");
    }
    let answer = server.get(&format!("{CONFIG_MAPS}?resourceVersion=999999")).await;
    assert_status(&answer, 504, "Timeout", "Too large resource version");
    assert_eq!(answer.1["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let answer = server.get(&format!("{CONFIG_MAPS}?resourceVersionMatch=Exact")).await;
    assert_status(&answer, 422, "Invalid", "forbidden unless resourceVersion is provided");
    let server = server.restart().await;
    let answer = server.get(&format!("{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact")).await;
    assert_status(&answer, 410, "Expired", "too old resource version");
}

#[tokio::test]
async fn an_expired_page_offers_to_go_on_with_the_latest() {
    let server = TestServer::start().await;
    for number in 0..4 {
        server.create(CONFIG_MAPS, &config_map(&format!("c{number}"), "1")).await;
    }
    let (_, list) = server.get(&format!("{CONFIG_MAPS}?limit=2")).await;
    let token = list["metadata"]["continue"].as_str().unwrap().to_owned();
    server.create(CONFIG_MAPS, &config_map("c9", "1")).await;
    let server = server.restart().await;
    let answer = server.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert_status(&answer, 410, "Expired", "too old to display a consistent list result");
    let token = answer.1["metadata"]["continue"].as_str().unwrap();
    let (code, list) = server.get(&format!("{CONFIG_MAPS}?continue={token}")).await;
    assert_eq!((code, names(&list)), (200, vec!["c2".to_owned(), "c3".to_owned(), "c9".to_owned()]));
}

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn every_kind_has_a_table_whose_rows_fit_its_columns() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("p")).await;
    server.create(DEPLOYMENTS, &deployment("d")).await;
    let mut paths = Vec::new();
    for root in [
        "/api/v1",
        "/apis/apps/v1",
        "/apis/discovery.k8s.io/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/policy/v1",
        "/apis/events.k8s.io/v1",
    ] {
        let (_, list) = server.get(root).await;
        let resources = list["resources"].as_array().unwrap();
        let names = resources.iter().map(|resource| resource["name"].as_str().unwrap());
        paths.extend(names.filter(|name| !name.contains('/')).map(|name| format!("{root}/{name}")));
    }
    let mut rows = 0;
    for path in paths {
        let (code, table) = server.send(server.request(Method::GET, &path).header("Accept", TABLE)).await;
        assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{path}");
        let columns = table["columnDefinitions"].as_array().unwrap();
        assert!(columns.len() >= 2, "{path}");
        for row in table["rows"].as_array().unwrap() {
            rows += 1;
            assert_eq!(row["cells"].as_array().unwrap().len(), columns.len(), "{path}");
            assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
        }
    }
    assert!(rows > 10);
    let (_, table) = server.send(server.request(Method::GET, &format!("{PODS}/p")).header("Accept", TABLE)).await;
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..4],
        [json!("p"), json!("0/1"), json!("Pending"), json!("0")]
    );
}

#[tokio::test]
async fn metadata_alone() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("p")).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = server.send(server.request(Method::GET, PODS).header("Accept", accept)).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "p");
    assert!(list["items"][0].get("spec").is_none());
}
