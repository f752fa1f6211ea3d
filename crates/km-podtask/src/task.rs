//! One pod's task.

use std::{fmt, time::Duration};

use km_mesos_proto::v1;

use crate::PortEntry;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    pub namespace: String,
    pub name: String,
}

impl PodKey {
    /// An empty namespace means `default`.
    pub fn new(namespace: &str, name: &str) -> Self {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object.
    pub fn of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Self {
        Self::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }

    /// The name of the Mesos task: `<pod>.<namespace>.pod`.
    pub fn mesos_name(&self) -> String {
        format!("{}.{}.pod", self.name, self.namespace)
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not running yet: waiting for its launch, launched, or starting.
    Pending,
    Running,
    /// Ended by itself.
    Finished,
}

/// What else is known of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// An ACCEPT with it was sent (whether or not it arrived).
    pub launched: bool,
    /// The executor said that the pod is bound.
    pub bound: bool,
    /// Its pod was deleted; it is to end.
    pub deleted: bool,
    /// Its agent is partitioned away; it may come back.
    pub unreachable: bool,
}

/// A task and all that is remembered of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: String,
    pub pod: PodKey,
    pub pod_uid: String,
    pub agent_id: String,
    /// The agent's host name, which is the node's name.
    pub hostname: String,
    pub executor_id: String,
    pub offer_id: String,
    /// What it takes; empty after a recovery.
    pub resources: Vec<v1::Resource>,
    pub ports: Vec<PortEntry>,
    pub state: State,
    pub flags: Flags,
    pub created: Duration,
    pub launched: Option<Duration>,
    pub bound: Option<Duration>,
    /// When Mesos last said something about it.
    pub updated: Option<Duration>,
}
