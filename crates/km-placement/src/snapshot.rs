//! What placement knows of the agents.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

use crate::{Amounts, HostPort, PortSet, Ports, Refusal};

/// All nodes, in a fixed order: a plan names them by index.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub nodes: Vec<NodeView>,
}

/// One node: a Mesos agent with what is known of it.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub unschedulable: bool,
    /// All that the agent has, whoever uses it: the measure of what could ever fit, and of scores.
    pub capacity: Amounts,
    /// What our own pods and executor take of it, as far as known: tells for an agent without an offer whether more
    /// room is to be expected.
    pub in_use: Amounts,
    /// All ports that the agent could ever offer; none when ports are not limited.
    pub port_universe: Option<PortSet>,
    /// What is offered now, one entry for each role that offers are made to.
    pub pools: Vec<Pool>,
    /// What must be taken for an executor before the first pod; none when one runs.
    pub executor: Option<ExecutorNeed>,
    /// Why the node can't be used at all now, if so (no offer, partitioned away, …).
    pub blocked: Option<Refusal>,
    /// Pods on it, and how many there may be.
    pub pod_count: i64,
    pub max_pods: Option<i64>,
    /// Host ports of the pods on it.
    pub used_ports: Vec<HostPort>,
    /// Live pods on it for each owner (see [`crate::PendingPod::owner`]).
    pub owners: BTreeMap<String, u32>,
}

/// The resources of all offers of an agent that are made to one role. One task takes from one pool only.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The role the offers are allocated to.
    pub role: String,
    /// By whom they are reserved for.
    pub shares: Vec<Share>,
}

/// A part of a pool with the same reservation.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// The role it is reserved for, `*` when for nobody.
    pub role: String,
    pub free: Amounts,
    pub ports: Ports,
}

/// What an executor takes.
#[derive(Clone, Debug, Default)]
pub struct ExecutorNeed {
    /// The role whose offers it is to be launched from.
    pub pool_role: String,
    /// Amounts by reservation role.
    pub shares: Vec<(String, Amounts)>,
}
