//! An API server in memory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::{
    ByteString,
    api::core::v1::{
        ConfigMap, Event, Node, NodeStatus, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus, Secret, Service,
    },
};
use serde_json::json;
use tokio::sync::mpsc;

use super::journal::Journal;
use crate::api::{Api, ApiError, PodChange, PodKey};

#[derive(Clone, Default)]
pub struct FakeApi {
    pub journal: Journal,
    state: Arc<Mutex<State>>,
    /// Statuses get no answer while this is set.
    pub status_down: Arc<AtomicBool>,
    /// Bindings lose their annotations, as on a server that doesn't merge them.
    pub drops_annotations: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<String, Pod>,
    config_maps: BTreeMap<String, ConfigMap>,
    /// The UID of the one node.
    node: Option<String>,
    lease_owner: Option<String>,
    claims: BTreeMap<String, PersistentVolumeClaim>,
    volumes: BTreeMap<String, PersistentVolume>,
    watchers: Vec<mpsc::UnboundedSender<PodChange>>,
}

impl FakeApi {
    pub fn put_config_map(&self, namespace: &str, name: &str, data: &[(&str, &str)]) {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let binary = BTreeMap::from([("picture".to_owned(), ByteString(vec![0xff, 0]))]);
        let map = ConfigMap { data: Some(data), binary_data: Some(binary), ..Default::default() };
        self.state.lock().unwrap().config_maps.insert(format!("{namespace}/{name}"), map);
    }

    pub fn put_claim(&self, namespace: &str, claim: PersistentVolumeClaim) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        self.state.lock().unwrap().claims.insert(format!("{namespace}/{name}"), claim);
    }

    pub fn put_volume(&self, volume: PersistentVolume) {
        let name = volume.metadata.name.clone().unwrap_or_default();
        self.state.lock().unwrap().volumes.insert(name, volume);
    }

    pub fn put(&self, pod: Pod) {
        let mut state = self.state.lock().unwrap();
        state.pods.insert(pod.metadata.name.clone().unwrap(), pod.clone());
        state.tell(|| PodChange::Applied(Box::new(pod.clone())));
    }

    pub fn node(&self) -> Option<String> {
        self.state.lock().unwrap().node.clone()
    }

    pub fn lease_owner(&self) -> Option<String> {
        self.state.lock().unwrap().lease_owner.clone()
    }

    /// Deletes the node; another may have made it anew.
    pub fn replace_node(&self, uid: Option<&str>) {
        self.state.lock().unwrap().node = uid.map(str::to_owned);
    }

    pub fn pod(&self, name: &str) -> Option<Pod> {
        self.state.lock().unwrap().pods.get(name).cloned()
    }

    /// What `kubectl delete` does to a bound pod.
    pub fn delete_gracefully(&self, name: &str, grace: i64) {
        let mut pod = self.pod(name).unwrap();
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.put(pod);
    }

    pub fn remove(&self, name: &str) {
        let mut state = self.state.lock().unwrap();
        if let Some(pod) = state.pods.remove(name) {
            let uid = pod.metadata.uid.unwrap();
            state.tell(|| PodChange::Gone(uid.clone()));
        }
    }

    fn change(&self, key: &PodKey, change: impl FnOnce(&mut Pod)) -> Result<(), ApiError> {
        let mut pod = self.pod(&key.name).ok_or(ApiError::NotFound)?;
        if pod.metadata.uid.as_deref() != Some(&key.uid) {
            return Err(ApiError::Conflict("uid".into()));
        }
        change(&mut pod);
        self.put(pod);
        Ok(())
    }
}

impl State {
    fn tell(&mut self, change: impl Fn() -> PodChange) {
        self.watchers.retain(|watcher| watcher.send(change()).is_ok());
    }
}

#[async_trait]
impl Api for FakeApi {
    async fn get_pod(&self, key: &PodKey) -> Result<Option<Pod>, ApiError> {
        Ok(self.pod(&key.name))
    }

    async fn create_pod(&self, pod: &Pod) -> Result<Pod, ApiError> {
        let mut pod = pod.clone();
        let name = pod.metadata.name.clone().unwrap_or_default();
        if self.pod(&name).is_some() {
            return Err(ApiError::Conflict(name));
        }
        pod.metadata.uid = Some(uuid::Uuid::new_v4().to_string());
        self.journal.note(format!("create {name}"));
        self.put(pod.clone());
        Ok(pod)
    }

    async fn bind(&self, key: &PodKey, node: &str, annotations: &BTreeMap<String, String>) -> Result<(), ApiError> {
        self.journal.note(format!("bind {} {node}", key.name));
        let drops = self.drops_annotations.load(Ordering::SeqCst);
        self.change(key, |pod| {
            pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
            if !drops {
                pod.metadata.annotations.get_or_insert_default().extend(annotations.clone());
            }
        })
    }

    async fn annotate(&self, key: &PodKey, annotations: &BTreeMap<String, String>) -> Result<(), ApiError> {
        self.journal.note(format!("annotate {}", key.name));
        self.change(key, |pod| pod.metadata.annotations.get_or_insert_default().extend(annotations.clone()))
    }

    async fn set_status(&self, key: &PodKey, status: &PodStatus) -> Result<(), ApiError> {
        if self.status_down.load(Ordering::SeqCst) {
            self.journal.note("status refused");
            return Err(ApiError::Unavailable("down".into()));
        }
        self.change(key, |pod| pod.status = Some(status.clone()))?;
        self.journal.note(format!("status {} {}", key.name, status.phase.as_deref().unwrap_or_default()));
        for container in status.container_statuses.iter().flatten() {
            let waiting = container.state.as_ref().and_then(|state| state.waiting.clone()).unwrap_or_default();
            if let (Some(reason), Some(message)) = (waiting.reason, waiting.message) {
                self.journal.note(format!("waiting {} {reason}: {message}", key.name));
            }
        }
        Ok(())
    }

    async fn delete_pod(&self, key: &PodKey) -> Result<(), ApiError> {
        self.change(key, |_| {})?;
        self.journal.note(format!("delete {}", key.name));
        self.remove(&key.name);
        Ok(())
    }

    fn watch_pods(&self, _node: &str) -> BoxStream<'static, PodChange> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.state.lock().unwrap().watchers.push(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, ApiError> {
        Ok(self.state.lock().unwrap().config_maps.get(&format!("{namespace}/{name}")).cloned())
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<PersistentVolumeClaim>, ApiError> {
        Ok(self.state.lock().unwrap().claims.get(&format!("{namespace}/{name}")).cloned())
    }

    async fn persistent_volume(&self, name: &str) -> Result<Option<PersistentVolume>, ApiError> {
        Ok(self.state.lock().unwrap().volumes.get(name).cloned())
    }

    async fn secret(&self, _namespace: &str, name: &str) -> Result<Option<Secret>, ApiError> {
        let data = match name {
            "pull" => (".dockercfg", r#"{"r.io": {"username": "of-secret", "password": "p"}}"#),
            _ => ("key", "secret"),
        };
        let data = BTreeMap::from([(data.0.to_owned(), ByteString(data.1.as_bytes().to_vec()))]);
        Ok(["known", "pull"].contains(&name).then(|| Secret { data: Some(data), ..Default::default() }))
    }

    async fn service(&self, namespace: &str, name: &str) -> Result<Option<Service>, ApiError> {
        Ok((namespace == "default").then(|| service(name, "10.96.0.1")))
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Service>, ApiError> {
        Ok(vec![service(&format!("of-{namespace}"), "10.96.0.2")])
    }

    async fn token(&self, _: &PodKey, account: &str, _: Option<&str>, _: i64) -> Result<String, ApiError> {
        Ok(format!("token-of-{account}"))
    }

    async fn record(&self, event: &Event) -> Result<(), ApiError> {
        self.journal.note(format!("event {}", event.reason.as_deref().unwrap_or_default()));
        Ok(())
    }

    async fn ensure_node(&self, node: &Node) -> Result<Node, ApiError> {
        self.journal.note(format!("node {}", node.metadata.name.as_deref().unwrap_or_default()));
        let mut node = node.clone();
        let uid = self.state.lock().unwrap().node.get_or_insert_with(|| uuid::Uuid::new_v4().to_string()).clone();
        node.metadata.uid = Some(uid);
        Ok(node)
    }

    async fn node_uid(&self, _name: &str) -> Result<Option<String>, ApiError> {
        Ok(self.node())
    }

    async fn set_node_status(&self, _name: &str, status: &NodeStatus) -> Result<(), ApiError> {
        let port = status.daemon_endpoints.as_ref().unwrap().kubelet_endpoint.as_ref().unwrap().port;
        self.journal.note(format!("node status {port}"));
        Ok(())
    }

    async fn renew_lease(&self, node: &Node, _seconds: i32) -> Result<(), ApiError> {
        self.state.lock().unwrap().lease_owner = node.metadata.uid.clone();
        self.journal.note(format!("lease {}", node.metadata.name.as_deref().unwrap_or_default()));
        Ok(())
    }
}

fn service(name: &str, ip: &str) -> Service {
    let spec = json!({"clusterIP": ip, "ports": [{"port": 80}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}
