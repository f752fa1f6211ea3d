//! What the executor asks of the Kubernetes API server. A trait, so that tests run without one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Node, NodeStatus, PersistentVolume, PersistentVolumeClaim, Pod, PodStatus, Secret, Service,
};

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("not found")]
    NotFound,
    /// 409: somebody else was first, or the object is another one (UID).
    #[error("conflict: {0}")]
    Conflict(String),
    /// The server understood and refuses; trying again is pointless.
    #[error("refused: {0}")]
    Refused(String),
    /// No answer, or one that says to come back later.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// A change of this node's pods.
#[derive(Clone, Debug)]
pub enum PodChange {
    Applied(Box<Pod>),
    /// UID of a pod that is gone.
    Gone(String),
    /// The UIDs of all pods that exist, after a new list: others are gone.
    Complete(Vec<String>),
}

/// Names one pod incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKey {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl PodKey {
    /// The key of a pod object; empty parts where the object has none.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }

    /// `<pod>_<namespace>`, the name under which pods appear in Mesos statuses.
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.name, self.namespace)
    }
}

/// One attempt per call, each with a deadline: whoever calls decides about trying again.
#[async_trait]
pub trait Api: Send + Sync {
    async fn get_pod(&self, key: &PodKey) -> Result<Option<Pod>, ApiError>;
    async fn create_pod(&self, pod: &Pod) -> Result<Pod, ApiError>;
    /// Posts a Binding that carries annotations for the pod.
    async fn bind(&self, key: &PodKey, node: &str, annotations: &BTreeMap<String, String>) -> Result<(), ApiError>;
    /// Merges annotations into the pod of that UID.
    async fn annotate(&self, key: &PodKey, annotations: &BTreeMap<String, String>) -> Result<(), ApiError>;
    /// Writes the status of the pod of that UID.
    async fn set_status(&self, key: &PodKey, status: &PodStatus) -> Result<(), ApiError>;
    /// Deletes the pod of that UID with grace 0.
    async fn delete_pod(&self, key: &PodKey) -> Result<(), ApiError>;
    /// Changes of the pods bound to the node, from now on and for ever; starts with all of them.
    fn watch_pods(&self, node: &str) -> BoxStream<'static, PodChange>;

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, ApiError>;
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, ApiError>;
    async fn service(&self, namespace: &str, name: &str) -> Result<Option<Service>, ApiError>;
    /// All services of the namespace.
    async fn services(&self, namespace: &str) -> Result<Vec<Service>, ApiError>;
    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<PersistentVolumeClaim>, ApiError>;
    async fn persistent_volume(&self, name: &str) -> Result<Option<PersistentVolume>, ApiError>;
    /// A token for a service account, bound to the pod, and its expiry.
    async fn token(
        &self,
        key: &PodKey,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<String, ApiError>;
    /// Creates an event; one with a count above 1 was created before and is updated.
    async fn record(&self, event: &Event) -> Result<(), ApiError>;

    /// Creates the node, or merges labels and annotations into it.
    async fn ensure_node(&self, node: &Node) -> Result<Node, ApiError>;
    /// Which node has that name now, if any.
    async fn node_uid(&self, name: &str) -> Result<Option<String>, ApiError>;
    async fn set_node_status(&self, name: &str, status: &NodeStatus) -> Result<(), ApiError>;
    /// Renews (or creates) the node's lease in `kube-node-lease`.
    async fn renew_lease(&self, node: &Node, seconds: i32) -> Result<(), ApiError>;
}
