//! Why pods don't fit, per node and summed up for people.

use std::{collections::BTreeMap, fmt};

/// Why one node refuses one pod. Texts are those of the Kubernetes scheduler where it has one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The pod has scheduling gates.
    Gated,
    Unschedulable,
    NodeName,
    Taint,
    NodeAffinity,
    Ports,
    TooManyPods,
    /// Resources that are short: `cpu`, `memory` or another name.
    Insufficient(Vec<String>),
    /// Nothing of the agent is offered to us at the moment.
    NoOffer,
    /// The agent is partitioned away.
    Unreachable,
    /// An executor of another configuration holds the agent.
    OtherExecutor,
}

impl Refusal {
    /// The texts that events count, one for each reason.
    pub fn texts(&self) -> Vec<String> {
        let text = match self {
            Self::Insufficient(names) => return names.iter().map(|name| format!("Insufficient {name}")).collect(),
            Self::Gated => "node(s) are closed to a pod with scheduling gates",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NodeName => "node(s) didn't match the requested node name",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::NoOffer => "node(s) had no resource offer from Mesos",
            Self::Unreachable => "node(s) were unreachable",
            Self::OtherExecutor => "node(s) ran an executor of another configuration",
        };
        vec![text.to_owned()]
    }
}

/// The node that lacks least, when resources alone are the matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    pub node: String,
    /// Resource and missing amount (milli-CPUs, bytes, units).
    pub lacking: Vec<(String, i64)>,
}

/// Why a pod fits nowhere. Its text is the message of the event and of the pod's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub nodes: usize,
    /// Refusals by text.
    pub counts: BTreeMap<String, usize>,
    /// What can never be met by any node.
    pub notes: Vec<String>,
    pub nearest: Option<Nearest>,
}

impl Summary {
    pub(crate) fn count(&mut self, refusal: &Refusal) {
        for text in refusal.texts() {
            *self.counts.entry(text).or_default() += 1;
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return out.write_str("no nodes available to schedule pods");
        }
        let mut parts: Vec<String> = self.counts.iter().map(|(text, count)| format!("{count} {text}")).collect();
        parts.sort_unstable();
        write!(out, "0/{} nodes are available: {}.", self.nodes, parts.join(", "))?;
        self.notes.iter().try_for_each(|note| write!(out, " {note}."))
    }
}
