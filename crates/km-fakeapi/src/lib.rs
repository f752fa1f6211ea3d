//! An API server in memory, for simulation and tests: pods and nodes, bindings, deletions, volumes and claims, what watchers
//! see, and who leads. No IO.
//!
//! Every write has a resource version of its own; watchers read the history after theirs, and are told that it is gone
//! once it was compacted. It checks of itself that a terminal phase never changes.

mod history;
mod lease;
mod nodes;
mod pods;
mod storage;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use km_kube::keys;
use km_podtask::PodKey;

pub use history::{Change, Compacted, What};
pub use lease::{Identity, Lease};
pub use nodes::WriteError;
pub use pods::BindError;

/// The server. All of it is durable: a server that is down has lost nothing.
#[derive(Default)]
pub struct Api {
    pub pods: BTreeMap<PodKey, Arc<Pod>>,
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub claims: BTreeMap<PodKey, Arc<PersistentVolumeClaim>>,
    pub volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// Whether it can't be reached.
    pub down: bool,
    /// Pods that a disruption budget keeps.
    pub kept: Vec<PodKey>,
    /// So many bindings are refused before one succeeds.
    pub refuse_bindings: u32,
    /// How long pods tolerate an unreachable node that don't say it: 300 s if none.
    pub toleration: Option<i64>,
    pub lease: Lease,
    pub identity: Identity,
    history: history::History,
    /// The pods that carry a task's id, by that id.
    by_task: HashMap<String, PodKey>,
    by_node: HashMap<String, BTreeSet<PodKey>>,
    next_uid: u32,
    /// A broken promise of the server itself (invariant 10), found at a write.
    broken: Option<String>,
}

/// The id of the task that bound the pod.
pub fn task_of(pod: &Pod) -> Option<String> {
    pod.metadata.annotations.as_ref()?.get(keys::TASK_ID).cloned()
}

/// The pod's UID; the server gives every pod one.
pub fn uid_of(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

impl Api {
    /// The resource version of the last write.
    pub fn version(&self) -> u64 {
        self.history.version()
    }

    /// The next change after a version; none when there is no later one.
    ///
    /// # Errors
    /// When the history after that version is not complete any more: HTTP status 410.
    pub fn change_after(&self, version: u64) -> Result<Option<&Change>, Compacted> {
        self.history.after(version)
    }

    /// Forgets the history, as etcd's compaction does: watchers that are behind must list anew.
    pub fn compact(&mut self) {
        self.history.compact();
    }

    /// The pod that a task bound.
    pub fn pod_of_task(&self, task: &str) -> Option<(&PodKey, &Arc<Pod>)> {
        let key = self.by_task.get(task)?;
        self.pods.get_key_value(key).filter(|(_, pod)| task_of(pod).as_deref() == Some(task))
    }

    /// The pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// The broken promise, if one was broken.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}
