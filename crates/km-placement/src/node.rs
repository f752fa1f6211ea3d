//! What placement is told of a node: what it is, and what it offers.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Node, Taint},
    storage::v1::CSINode,
};
use km_kube::quantity::Quantity;

use crate::{Amounts, Attribute, PortSet, Ports, Refusal, volumes};

/// What a node is: a Mesos agent as its Node object and the master describe it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub unschedulable: bool,
    /// All that it has, whoever uses it: the measure of what could ever fit, and of scores.
    pub capacity: Amounts,
    /// How many pods there may be.
    pub max_pods: Option<i64>,
    /// All ports that it could ever offer; none when ports are not limited.
    pub port_universe: Option<PortSet>,
    /// Sizes in bytes of the images on it, by name.
    pub images: BTreeMap<String, i64>,
    /// How many volumes each CSI driver can attach; any number where it says nothing.
    pub volume_limits: BTreeMap<String, usize>,
    /// Attributes of the agent.
    pub attributes: BTreeMap<String, Attribute>,
}

/// What a node offers now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Supply {
    /// One entry for each role that offers are made to.
    pub pools: Vec<Pool>,
    /// What must be taken for an executor before the first pod, by the pool that it is taken from; none when one runs.
    /// From a pool that isn't named no executor can be launched.
    pub executors: Option<Vec<ExecutorNeed>>,
    /// What a running executor takes: together with the pods it tells for an agent without an offer whether more room
    /// is to be expected.
    pub executor_use: Amounts,
    /// Why the node can't be used at all now, if so (no offer, partitioned away, …).
    pub blocked: Option<Refusal>,
    /// When its oldest offer came, as a number that grows.
    pub arrival: u64,
}

/// The resources of all offers of an agent that are made to one role. One task takes from one pool only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// The role the offers are allocated to.
    pub role: String,
    /// By whom they are reserved for.
    pub shares: Vec<Share>,
}

/// A part of a pool with the same reservation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// The role it is reserved for, `*` when for nobody.
    pub role: String,
    pub free: Amounts,
    pub ports: Ports,
}

/// What an executor takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutorNeed {
    /// The role whose offers it is to be launched from.
    pub pool_role: String,
    /// Amounts by reservation role.
    pub shares: Vec<(String, Amounts)>,
}

impl ExecutorNeed {
    /// Its processors in all.
    pub fn milli_cpu(&self) -> i64 {
        self.shares.iter().map(|(_, amounts)| amounts.milli_cpu).sum()
    }
}

impl Supply {
    /// All that is offered, over pools and shares.
    pub fn free(&self) -> Amounts {
        let mut sum = Amounts::default();
        for share in self.pools.iter().flat_map(|pool| &pool.shares) {
            sum.add(&share.free);
        }
        sum
    }
}

impl NodeFacts {
    /// What a CSINode object says of the node.
    pub fn set_volume_limits(&mut self, node: &CSINode) {
        self.volume_limits = volumes::limits(node);
    }

    /// What a Node object says. Of what it has, the part that pods may use counts (`allocatable`).
    pub fn of(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let mut capacity = Amounts::default();
        let mut max_pods = None;
        for (name, quantity) in status.and_then(|status| status.allocatable.as_ref()).into_iter().flatten() {
            // What is no quantity was refused by the API server; here it counts as nothing.
            let amount = Quantity::try_from(quantity).unwrap_or_default();
            match name.as_str() {
                "cpu" => capacity.milli_cpu = amount.milli(),
                "memory" => capacity.memory_bytes = amount.value(),
                "pods" => max_pods = Some(amount.value()),
                _ => {
                    capacity.other.insert(name.clone(), amount.value());
                }
            }
        }
        let images = status.and_then(|status| status.images.as_ref()).into_iter().flatten();
        let sizes = images.flat_map(|image| {
            let size = image.size_bytes.unwrap_or(0);
            image.names.iter().flatten().map(move |name| (name.clone(), size))
        });
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            capacity,
            max_pods,
            images: sizes.collect(),
            ..Self::default()
        }
    }
}
