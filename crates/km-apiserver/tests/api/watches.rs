//! Watches: everything once, in order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, PATIENCE, PODS, TestServer, assert_status, config_map, pod};

/// The lines of a watch.
struct Lines {
    response: Response,
    text: Vec<u8>,
}

impl Lines {
    async fn open(server: &TestServer, path: &str) -> Self {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: Vec::new() }
    }

    /// The next event; `None` when the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].take()));
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("an event").unwrap()?;
            self.text.extend_from_slice(&chunk);
        }
    }

    async fn brief(&mut self) -> String {
        let (kind, object) = self.next().await.expect("one more event");
        format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or("-"))
    }
}

#[tokio::test]
async fn a_watch_tells_what_is_and_what_comes() {
    let server = TestServer::start().await;
    server.create(CONFIG_MAPS, &config_map("a", "1")).await;
    let mut all = Lines::open(&server, &format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(all.brief().await, "ADDED a");
    server.create(CONFIG_MAPS, &config_map("b", "1")).await;
    server.patch(&format!("{CONFIG_MAPS}/b"), "merge", &json!({ "data": { "key": "2" } })).await;
    server.delete(&format!("{CONFIG_MAPS}/a")).await;
    // The same namespace only.
    server.create("/api/v1/namespaces/kube-system/configmaps", &config_map("elsewhere", "1")).await;
    server.create(CONFIG_MAPS, &config_map("c", "1")).await;
    for expected in ["ADDED b", "MODIFIED b", "DELETED a", "ADDED c"] {
        assert_eq!(all.brief().await, expected);
    }
}

#[tokio::test]
async fn objects_come_and_go_with_the_selector() {
    let server = TestServer::start().await;
    let start = server.create(PODS, &pod("p")).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = Lines::open(&server, &format!("{PODS}?watch=1&labelSelector=x&resourceVersion={start}")).await;
    let label = async |value: Value| {
        server.patch(&format!("{PODS}/p"), "merge", &json!({ "metadata": { "labels": { "x": value } } })).await.1
    };
    label("1".into()).await;
    label("2".into()).await;
    let gone = label(Value::Null).await;
    assert_eq!(watch.brief().await, "ADDED p");
    assert_eq!(watch.brief().await, "MODIFIED p");
    let (kind, object) = watch.next().await.unwrap();
    assert_eq!(kind, "DELETED");
    assert_eq!(object["metadata"]["labels"]["x"], "2", "as it was last seen");
    assert_eq!(object["metadata"]["resourceVersion"], gone["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_streaming_list_marks_its_end() {
    let server = TestServer::start().await;
    server.create(CONFIG_MAPS, &config_map("a", "1")).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Lines::open(&server, &format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let (kind, object) = watch.next().await.unwrap();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    server.create(CONFIG_MAPS, &config_map("b", "1")).await;
    assert_eq!(watch.brief().await, "ADDED b");
    for wrong in ["watch=1&sendInitialEvents=true", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"]
    {
        assert_status(
            &server.get(&format!("{CONFIG_MAPS}?{wrong}")).await,
            422,
            "Invalid",
            "sendInitialEvents requires",
        );
    }
}

#[tokio::test]
async fn a_watch_ends_in_time_with_a_bookmark() {
    let server = TestServer::start().await;
    let query = "watch=1&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1";
    let mut watch = Lines::open(&server, &format!("{CONFIG_MAPS}?{query}")).await;
    let now = server.create(PODS, &pod("p")).await["metadata"]["resourceVersion"].clone();
    let (kind, object) = watch.next().await.unwrap();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["resourceVersion"], now, "a change elsewhere moves it on");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_version_from_before_is_expired() {
    let server = TestServer::start().await;
    let old = server.create(CONFIG_MAPS, &config_map("a", "1")).await["metadata"]["resourceVersion"].clone();
    server.create(CONFIG_MAPS, &config_map("b", "1")).await;
    let server = server.restart().await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", old.as_str().unwrap());
    let mut watch = Lines::open(&server, &path).await;
    let (kind, status) = watch.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
    assert!(watch.next().await.is_none());
    let answer = server.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=99999")).await;
    assert_status(&answer, 504, "Timeout", "Too large");
}

#[tokio::test]
async fn tables_can_be_watched() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("a")).await;
    server.create(PODS, &pod("b")).await;
    let request = server
        .request(Method::GET, &format!("{PODS}?watch=1&resourceVersion=0"))
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut watch = Lines { response: request.send().await.unwrap(), text: Vec::new() };
    let (_, first) = watch.next().await.unwrap();
    assert_eq!((&first["kind"], &first["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    assert!(!first["columnDefinitions"].as_array().unwrap().is_empty());
    let (_, second) = watch.next().await.unwrap();
    assert_eq!(second["columnDefinitions"], json!([]), "columns come once");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever is written, a watch from any version leads from the list of that version to the list of now.
    #[test]
    fn a_watch_leads_from_then_to_now(steps in prop::collection::vec((0..3u8, 0..3u8), 1..25), from in 0..25usize) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let server = TestServer::start().await;
            let mut versions = vec![server.get(CONFIG_MAPS).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned()];
            for (step, (name, action)) in steps.iter().enumerate() {
                let (name, path) = (format!("c{name}"), format!("{CONFIG_MAPS}/c{name}"));
                let _may_fail = match action {
                    0 => server.post(CONFIG_MAPS, &config_map(&name, &step.to_string())).await,
                    1 => server.patch(&path, "merge", &json!({ "data": { "key": step.to_string() } })).await,
                    _ => server.delete(&path).await,
                };
                versions.push(server.get(CONFIG_MAPS).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
            }
            let start = &versions[from % versions.len()];
            let content = |list: &Value| -> BTreeMap<String, String> {
                let items = list["items"].as_array().unwrap();
                items.iter().map(|item| (item["metadata"]["name"].to_string(), item["metadata"]["resourceVersion"].to_string())).collect()
            };
            let path = format!("{CONFIG_MAPS}?resourceVersion={start}&resourceVersionMatch=Exact");
            let mut state = content(&server.get(&path).await.1);
            let goal = server.get(CONFIG_MAPS).await.1;
            let mut watch = Lines::open(&server, &format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;
            // A last write tells when everything before it has come.
            server.create(CONFIG_MAPS, &config_map("end", "")).await;
            let mut last: u64 = start.parse().unwrap();
            loop {
                let (kind, object) = watch.next().await.unwrap();
                let name = object["metadata"]["name"].to_string();
                let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                assert!(revision > last, "in order, each once");
                last = revision;
                let version = object["metadata"]["resourceVersion"].to_string();
                match kind.as_str() {
                    _ if name == "\"end\"" => break,
                    "ADDED" => assert!(state.insert(name, version).is_none()),
                    "MODIFIED" => assert!(state.insert(name, version).is_some()),
                    "DELETED" => assert!(state.remove(&name).is_some()),
                    other => panic!("{other}"),
                }
            }
            assert_eq!(state, content(&goal));
        });
    }
}
