//! A real client library: kube.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{watcher, watcher::Event},
};
use serde_json::json;

use crate::harness::{PATIENCE, TestServer};

async fn connect(server: &TestServer) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.directory.path().join("admin.kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn kube_does_everything_once() {
    let server = TestServer::start().await;
    let client = connect(&server).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "37");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let again = pods.create(&PostParams::default(), &pod).await.unwrap_err();
    let kube::Error::Api(status) = again else { panic!("{again}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    pods.patch("p", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(&json!({ "status": { "phase": "Running" } })))
        .await
        .unwrap();
    let listed = pods.list(&ListParams::default().labels("a=b").fields("status.phase=Running")).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(pods.list_metadata(&ListParams::default()).await.unwrap().items.len(), 1);
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

#[tokio::test]
async fn kube_watches_by_both_ways_of_listing() {
    let server = TestServer::start().await;
    let client = connect(&server).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = |name: &str| ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map("first")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut events = watcher(maps.clone(), config).boxed();
        let mut seen = Vec::new();
        while !seen.contains(&"apply second".to_owned()) {
            let event = tokio::time::timeout(PATIENCE, events.try_next()).await.unwrap().unwrap().unwrap();
            let name = |object: &ConfigMap| object.metadata.name.clone().unwrap();
            match event {
                Event::Init => seen.push("init".to_owned()),
                Event::InitApply(object) => seen.push(format!("init {}", name(&object))),
                Event::InitDone => {
                    seen.push("done".to_owned());
                    maps.create(&PostParams::default(), &map("second")).await.unwrap();
                }
                Event::Apply(object) => seen.push(format!("apply {}", name(&object))),
                Event::Delete(object) => seen.push(format!("delete {}", name(&object))),
            }
        }
        assert_eq!(seen, ["init", "init first", "done", "apply second"]);
        maps.delete("second", &DeleteParams::default()).await.unwrap();
    }
}
