//! The mirror of one static pod: made when there is a status to show, and made again whenever it is not there.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::{
    api::core::v1::{Pod, PodStatus},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use km_kube::{keys, pod::is_mirror};
use tokio::sync::OnceCell;

use crate::{
    api::{Api, ApiError, PodKey},
    node::{self, Description},
    pod::Sink,
    retry::{Delays, while_unavailable},
};

/// Annotation: tells one version of a static pod from another (as the stock kubelet's).
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// The version of a static pod, or the one that a mirror shows.
pub fn hash(pod: &Pod) -> &str {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(CONFIG_HASH)).map(String::as_str).unwrap_or_default()
}

/// Writes a static pod's statuses to its mirror.
pub struct Mirror {
    api: Arc<dyn Api>,
    pod: Pod,
    description: Arc<Description>,
    /// Its node's UID.
    node: OnceCell<Option<String>>,
}

/// What the pod of the mirror's name in the API server means.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Create,
    /// It is this pod's, under that UID.
    Keep(String),
    /// It mirrors another version of the pod.
    Replace(String),
    /// It is no mirror at all: its owner must take it away.
    Foreign,
}

/// Compares what is there with what should be.
pub fn judge(found: Option<&Pod>, pod: &Pod) -> Verdict {
    let Some(found) = found else { return Verdict::Create };
    let uid = found.metadata.uid.clone().unwrap_or_default();
    if !is_mirror(found) {
        Verdict::Foreign
    } else if hash(found) == hash(pod) && found.metadata.deletion_timestamp.is_none() {
        Verdict::Keep(uid)
    } else {
        Verdict::Replace(uid)
    }
}

impl Mirror {
    pub fn new(api: Arc<dyn Api>, pod: Pod, description: Arc<Description>) -> Self {
        Self { api, pod, description, node: OnceCell::new() }
    }

    /// The object to be made. It belongs to its node and goes with it.
    async fn object(&self) -> Pod {
        let register = || async { node::register(&*self.api, &self.description).await.metadata.uid };
        let node = self.node.get_or_init(register).await;
        let mut mirror = self.pod.clone();
        mirror.metadata.uid = None;
        let value = hash(&self.pod).to_owned();
        mirror.metadata.annotations.get_or_insert_default().insert(keys::MIRROR_POD.to_owned(), value);
        mirror.metadata.owner_references = node.clone().map(|uid| {
            vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: self.description.name.clone(),
                uid,
                controller: Some(true),
                block_owner_deletion: None,
            }]
        });
        mirror
    }

    /// One attempt: whether the status is written.
    async fn attempt(&self, status: &PodStatus) -> Result<bool, ApiError> {
        let key = PodKey::of(&self.pod);
        let named = |uid: String| PodKey { uid, ..key.clone() };
        let found = while_unavailable("reading a mirror pod", || self.api.get_pod(&key)).await?;
        let uid = match judge(found.as_ref(), &self.pod) {
            Verdict::Keep(uid) => uid,
            Verdict::Create => {
                let object = self.object().await;
                let made = while_unavailable("making a mirror pod", || self.api.create_pod(&object)).await?;
                made.metadata.uid.unwrap_or_default()
            }
            Verdict::Replace(uid) => {
                let old = named(uid);
                while_unavailable("deleting a mirror pod", || self.api.delete_pod(&old)).await?;
                return Ok(false);
            }
            Verdict::Foreign => {
                return Err(ApiError::Conflict("a pod that is no mirror has the name of a static pod".to_owned()));
            }
        };
        let own = named(uid);
        while_unavailable("writing a mirror's status", || self.api.set_status(&own, status)).await?;
        Ok(true)
    }
}

#[async_trait]
impl Sink for Mirror {
    /// Until it is written, as its namespace may come later.
    async fn write(&self, status: &PodStatus) {
        let mut delays = Delays::default();
        loop {
            match self.attempt(status).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    let name = self.pod.metadata.name.as_deref().unwrap_or_default();
                    tracing::warn!(pod = name, %error, "the mirror of a static pod is not written: trying again");
                }
            }
            delays.wait().await;
        }
    }

    fn must_be_durable(&self) -> bool {
        false
    }
}
