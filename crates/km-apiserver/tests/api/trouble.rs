//! Restarts, two servers on one directory, damaged files.

use km_store::{Key, Options, RedbStore, Store};
use reqwest::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::{CONFIG_MAPS, PODS, TestServer, config_map, flags, pod};

#[tokio::test]
async fn objects_are_there_after_a_restart() {
    let server = TestServer::start().await;
    let before = server.create(PODS, &pod("p")).await;
    server.create(CONFIG_MAPS, &config_map("gone", "1")).await;
    server.delete(&format!("{CONFIG_MAPS}/gone")).await;
    let version = server.get(PODS).await.1["metadata"]["resourceVersion"].clone();
    // A watch that is open doesn't keep the server from stopping.
    let _watch = server.request(Method::GET, &format!("{PODS}?watch=1")).send().await.unwrap();
    let server = server.restart().await;
    assert_eq!(server.get(&format!("{PODS}/p")).await, (200, before));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/gone")).await.0, 404);
    let later = server.get(PODS).await.1["metadata"]["resourceVersion"].clone();
    let number = |version: &serde_json::Value| version.as_str().unwrap().parse::<u64>().unwrap();
    assert!(number(&later) >= number(&version), "versions never go back");
}

#[tokio::test]
async fn a_kubeconfig_of_before_still_works() {
    let server = TestServer::start().await;
    let pki = km_apiserver::Pki::ensure(&server.directory.path().join("pki")).unwrap();
    let authority = pki.authority().to_owned();
    let client = server.client.clone();
    let server = server.restart().await;
    let pki = km_apiserver::Pki::ensure(&server.directory.path().join("pki")).unwrap();
    assert_eq!(pki.authority(), authority);
    assert_eq!(server.send(client.get(format!("{}{PODS}", server.url))).await.0, 200);
    let kubeconfig = std::fs::read_to_string(server.directory.path().join("admin.kubeconfig")).unwrap();
    assert!(kubeconfig.contains(&server.url), "{kubeconfig}");
}

#[tokio::test]
async fn a_second_server_on_the_directory_says_who_is_there() {
    let server = TestServer::start().await;
    let error = km_apiserver::start(flags(server.directory.path()), CancellationToken::new()).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains(&format!("is in use by process {}", std::process::id())), "{text}");
    assert_eq!(server.get(PODS).await.0, 200, "the first goes on");
}

#[tokio::test]
async fn a_damaged_file_is_named() {
    let server = TestServer::start().await;
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("objects.redb"), vec![7; 20_000]).unwrap();
    let error = km_apiserver::start(flags(directory.path()), CancellationToken::new()).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains("objects.redb is damaged") && text.contains("km reset"), "{text}");
    drop(server);
}

#[test]
fn objects_are_stored_as_they_are_shown() {
    let directory = tempfile::TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = runtime.block_on(async {
        let server = TestServer::start().await;
        server.create(CONFIG_MAPS, &config_map("c", "1")).await;
        let server = server.restart().await;
        let shown = server.get(&format!("{CONFIG_MAPS}/c")).await.1;
        std::fs::write(directory.path().join("shown"), shown.to_string()).unwrap();
        std::fs::copy(server.directory.path().join("objects.redb"), directory.path().join("objects.redb")).unwrap();
        directory
    });
    let store = RedbStore::open(Options::new(directory.path(), |_, _| Default::default())).unwrap();
    let stored = store.get(&Key::new("configmaps", "default", "c")).unwrap();
    let shown: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("shown")).unwrap()).unwrap();
    assert_eq!(stored.value(), shown);
    assert_eq!(shown["data"], json!({ "key": "1" }));
}
