//! Pods that placement can't tell apart share one class, and with it the work of filtering.

use std::collections::BTreeSet;

use crate::{
    fit::NodeState,
    pending::PendingPod,
    score::{Policy, Rank, rank},
};

/// What all of a class have in common, as text.
pub(crate) fn key(pod: &PendingPod) -> String {
    let mut key = format!("{:?}|{:?}|{:?}|{:?}", pod.amounts, pod.roles, pod.ports, pod.owner);
    if let Some(spec) = &pod.pod.spec {
        // Debug texts of these are complete, and absent ones are short.
        key.push_str(&format!(
            "|{:?}|{:?}|{:?}|{:?}|{:?}",
            spec.node_name,
            spec.node_selector,
            spec.affinity.as_ref().map(|affinity| &affinity.node_affinity),
            spec.tolerations,
            spec.scheduling_gates
        ));
    }
    key
}

/// The nodes that fit the pods of a class, best first.
pub(crate) struct Class {
    ranked: BTreeSet<Rank>,
    /// The rank under which each node is in `ranked`.
    ranks: Vec<Option<Rank>>,
    /// Whether the node passes the rules that don't change.
    accepted: Vec<bool>,
    /// How far the log of changed nodes is known here.
    seen: usize,
}

impl Class {
    pub fn new(pod: &PendingPod, nodes: &[NodeState<'_>], policy: &Policy, changes: usize) -> Self {
        let accepted: Vec<bool> = nodes.iter().map(|node| node.accepts(pod, policy).is_ok()).collect();
        let mut class = Self { ranked: BTreeSet::new(), ranks: vec![None; nodes.len()], accepted, seen: changes };
        for index in 0..nodes.len() {
            class.refresh(pod, nodes, policy, index);
        }
        class
    }

    /// The best node, after catching up with the nodes that changed (`log` names them in order).
    pub fn best(&mut self, pod: &PendingPod, nodes: &[NodeState<'_>], policy: &Policy, log: &[usize]) -> Option<usize> {
        for index in &log[self.seen..] {
            self.refresh(pod, nodes, policy, *index);
        }
        self.seen = log.len();
        self.ranked.first().map(|(_, _, index)| *index)
    }

    fn refresh(&mut self, pod: &PendingPod, nodes: &[NodeState<'_>], policy: &Policy, index: usize) {
        if let Some(old) = self.ranks[index].take() {
            self.ranked.remove(&old);
        }
        if self.accepted[index] && nodes[index].room(pod).is_ok() {
            let rank = rank(policy, &nodes[index], index, pod);
            self.ranked.insert(rank);
            self.ranks[index] = Some(rank);
        }
    }
}
