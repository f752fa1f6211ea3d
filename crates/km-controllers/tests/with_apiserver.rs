//! The controllers against the embedded API server over HTTPS; the test plays scheduler and kubelet.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use km_apiserver::Flags as ApiFlags;
use km_controllers::Flags;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

struct Cluster {
    client: kube::Client,
    stop: CancellationToken,
    roles: Vec<km_observe::Started>,
    _data: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        // A second test of the same process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let data = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let flags = ApiFlags {
            data_dir: data.path().to_owned(),
            bind_address: [127, 0, 0, 1].into(),
            secure_port: 0,
            ..ApiFlags::default()
        };
        let api = km_apiserver::start(flags, stop.clone()).await.unwrap();
        let kubeconfig = data.path().join("admin.kubeconfig");
        let file = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        let flags = Flags { kubeconfig, address: [127, 0, 0, 1].into(), port: 0, host_port_endpoints: true };
        let controllers = km_controllers::start(flags, stop.clone()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        Self { client, stop, roles: vec![api, controllers], _data: data }
    }

    async fn end(self) {
        self.stop.cancel();
        for role in self.roles {
            role.join().await.unwrap();
        }
    }

    /// Runs every pod of the namespace and lets those go that are to go.
    async fn kubelet(&self, namespace: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for (index, pod) in pods.list(&ListParams::default()).await.unwrap().items.into_iter().enumerate() {
            let name = pod.metadata.name.clone().unwrap();
            if pod.metadata.deletion_timestamp.is_some() {
                // It may be gone already.
                let _ = pods
                    .delete(&name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
                    .await;
            } else if !km_kube::pod::is_ready(&pod) {
                let port = (31000 + index).to_string();
                let annotations = json!({"metadata": {"annotations": {"k8s.mesosphere.io/port_TCP_80": port}}});
                pods.patch(&name, &PatchParams::default(), &Patch::Merge(annotations)).await.unwrap();
                let status = json!({"status": {"phase": "Running", "hostIP": "10.9.0.1", "podIP": "10.1.0.9",
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
                pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
            }
        }
    }

    /// Waits for a condition, with the kubelet at work.
    async fn until<F: Future<Output = bool>>(&self, what: &str, mut condition: impl FnMut() -> F) {
        let begin = Instant::now();
        while !condition().await {
            assert!(begin.elapsed() < Duration::from_secs(90), "waited in vain: {what}");
            self.kubelet("shop").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_from_birth_to_end() {
    let cluster = Cluster::start().await;
    let client = cluster.client.clone();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let post = PostParams::default();
    namespaces.create(&post, &object(json!({"metadata": {"name": "shop"}}))).await.unwrap();

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "shop");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    cluster.until("the default account", async || accounts.get_opt("default").await.unwrap().is_some()).await;
    cluster.until("the root certificate", async || maps.get_opt("kube-root-ca.crt").await.unwrap().is_some()).await;

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "web:1", "ports": [{"containerPort": 80}]}]}}}});
    deployments.create(&post, &object(web)).await.unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), "shop");
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    services.create(&post, &object(service)).await.unwrap();

    let available =
        async || deployments.get_status("web").await.unwrap().status.and_then(|status| status.available_replicas);
    cluster.until("three available pods", async || available().await == Some(3)).await;

    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "shop");
    cluster
        .until("three endpoints", async || {
            let Some(found) = endpoints.get_opt("web").await.unwrap() else { return false };
            let addresses =
                found.subsets.unwrap_or_default().into_iter().flat_map(|subset| subset.addresses.unwrap_or_default());
            addresses.filter(|address| address.ip == "10.9.0.1").count() == 3
        })
        .await;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "shop");
    cluster
        .until("three endpoints in slices", async || {
            let found = slices.list(&ListParams::default()).await.unwrap().items;
            found.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default()).count() == 3
        })
        .await;

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    cluster
        .until("the new image on all pods", async || {
            let found = pods.list(&ListParams::default()).await.unwrap().items;
            let image = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
            found.len() == 3 && found.iter().all(|pod| image(pod).as_deref() == Some("web:2"))
        })
        .await;
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), "shop");
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);

    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    cluster.until("no sets", async || sets.list(&ListParams::default()).await.unwrap().items.is_empty()).await;
    cluster.until("no pods", async || pods.list(&ListParams::default()).await.unwrap().items.is_empty()).await;

    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    cluster.until("the end of the namespace", async || namespaces.get_opt("shop").await.unwrap().is_none()).await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_from_birth_to_end() {
    let cluster = Cluster::start().await;
    let (client, post) = (cluster.client.clone(), PostParams::default());
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/srv"}, "persistentVolumeReclaimPolicy": "Delete"}});
    volumes.create(&post, &object(volume)).await.unwrap();
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    claims.create(&post, &object(claim)).await.unwrap();

    let claim_phase = async || claims.get_opt("c").await.unwrap().and_then(|claim| claim.status?.phase);
    let volume_phase = async || volumes.get_opt("v").await.unwrap().and_then(|volume| volume.status?.phase);
    cluster.until("a bound claim", async || claim_phase().await.as_deref() == Some("Bound")).await;
    cluster.until("a bound volume", async || volume_phase().await.as_deref() == Some("Bound")).await;

    volumes.delete("v", &DeleteParams::default()).await.unwrap();
    assert!(volumes.get_opt("v").await.unwrap().is_some(), "it is bound");
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    cluster.until("the end of the claim", async || claim_phase().await.is_none()).await;
    cluster.until("the end of the volume", async || volumes.get_opt("v").await.unwrap().is_none()).await;
    cluster.end().await;
}
