//! What a pod asks of a place, read once when the pod enters the queue, so that placing parses nothing.

mod affinity;
mod compile;
mod ports;
mod running;
mod taints;
mod terms;

pub(crate) use affinity::NodeTerm;
pub use compile::{Context, NeedError, compile};
pub use ports::{HostPort, PortNeed, host_ports};
pub use running::running_requests;
pub(crate) use taints::Toleration;
pub use terms::Mates;
pub(crate) use terms::{Bond, BondKind, NamespaceLabels, PodSelector, Spread, Term};

use std::{collections::BTreeMap, sync::Arc};

use km_kube::selector::LabelRequirement;

use crate::{Amounts, constraint::Constraint, node::Pool, strategy::Strategy};

/// The requirements of a pod, and what other pods' requirements look at in it. Pods with equal needs share the work of
/// filtering: everything that tells pods apart for placement is in here, and nothing else.
///
/// It is made by [`compile`] and shared by [`crate::Engine::share`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Need {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    /// Pods of the same owner are kept apart where nothing else decides. Usually the UID of the controller.
    pub owner: Option<String>,
    /// Higher goes first, and may take the place of lower.
    pub priority: i32,
    /// What it takes of an agent.
    pub amounts: Amounts,
    /// Reservation roles it may take from, the preferred first.
    pub roles: Vec<String>,
    /// Roles in whose name it may be launched; any when empty. Offers to another role hold unreserved resources, too, but
    /// what is taken of them counts for that role's quota.
    pub pools: Vec<String>,
    pub ports: PortNeed,
    /// The way to choose among fitting nodes, when the pod has its own wish.
    pub strategy: Option<Strategy>,
    /// Whether it has scheduling gates.
    pub gated: bool,
    /// Whether lower pods may be removed for it (`preemptionPolicy`).
    pub preempts: bool,
    pub(crate) node_name: Option<String>,
    pub(crate) node_selector: Vec<LabelRequirement>,
    /// Of these terms one must hold; none when there is no required node affinity.
    pub(crate) node_terms: Option<Vec<NodeTerm>>,
    pub(crate) preferred_nodes: Vec<(i32, NodeTerm)>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) spread: Vec<Spread>,
    /// Required pod affinity and anti-affinity.
    pub(crate) near: Vec<Term>,
    pub(crate) apart: Vec<Term>,
    /// Preferred pod affinity (weight above 0) and anti-affinity (below).
    pub(crate) liked: Vec<(i32, Term)>,
    pub(crate) constraints: Vec<Constraint>,
    /// Claims to persistent volumes, by namespace and name.
    pub(crate) claims: Vec<Arc<str>>,
    /// Names of the images of its containers, with a tag.
    pub(crate) images: Vec<String>,
    /// CPU (thousandths) and memory (bytes) as Kubernetes scores them: with a default for containers that name none.
    pub(crate) scored: [i64; 2],
}

impl Need {
    /// The wishes that this pod, once it runs, has about others.
    pub(crate) fn bonds(&self) -> impl Iterator<Item = Bond> {
        let bond = |kind: BondKind, term: &Term| Bond { kind, term: term.clone() };
        let apart = self.apart.iter().map(move |term| bond(BondKind::Aversion, term));
        // Kubernetes counts the required affinity of running pods as a preference of weight 1.
        let near = self.near.iter().map(move |term| bond(BondKind::Liking(1), term));
        apart.chain(near).chain(self.liked.iter().map(move |(weight, term)| bond(BondKind::Liking(*weight), term)))
    }

    /// Whether it may be launched from the offers to one role.
    pub(crate) fn may_use(&self, pool: &Pool) -> bool {
        self.pools.is_empty() || self.pools.contains(&pool.role)
    }

    /// Whether it mounts persistent volumes by claims.
    pub fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    /// The claims to persistent volumes that it mounts, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().map(AsRef::as_ref)
    }

    /// Whether other pods decide where it may go.
    pub fn looks_around(&self) -> bool {
        let rules = self.spread.is_empty() && self.near.is_empty() && self.apart.is_empty();
        !(rules && self.constraints.is_empty())
    }
}
