//! Why pods don't fit, per node and summed up for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

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
    /// The agent refuses tasks, as it drains.
    Draining,
    /// A claim of the pod can't be used now, whatever the node. Holds the whole text.
    Claim(String),
    /// A claim for one pod only has one.
    ClaimTaken,
    /// The node can attach no more volumes.
    VolumeLimit,
    /// A claim's volume doesn't exist.
    VolumeMissing,
    /// A claim's volume can't be reached from the node.
    VolumeAffinity,
    /// No volume can be found or made for a claim there.
    NoVolume,
    /// A claim's volume is in another zone or region.
    VolumeZone,
    /// The node lacks the label that pods are spread by.
    SpreadLabel,
    Spread,
    PodAffinity,
    PodAntiAffinity,
    /// A running pod keeps this one away.
    RunningAntiAffinity,
    /// A Marathon-like constraint, as it was written.
    Constraint(String),
}

impl Refusal {
    /// The texts that events count, one for each reason.
    pub fn texts(&self) -> Vec<String> {
        let text = match self {
            Self::Insufficient(names) => return names.iter().map(|name| format!("Insufficient {name}")).collect(),
            Self::Claim(text) => return vec![text.clone()],
            Self::Constraint(constraint) => return vec![format!("node(s) didn't satisfy constraint {constraint}")],
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
            Self::Draining => "node(s) refused tasks as they were draining",
            Self::ClaimTaken => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            }
            Self::VolumeLimit => "node(s) exceed max volume count",
            Self::VolumeMissing => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::SpreadLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::RunningAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        vec![text.to_owned()]
    }

    /// Whether the removal of pods may help. Kubernetes calls the others "unschedulable and unresolvable".
    pub fn is_movable(&self) -> bool {
        matches!(
            self,
            Self::Ports
                | Self::TooManyPods
                | Self::Insufficient(_)
                | Self::ClaimTaken
                | Self::VolumeLimit
                | Self::Spread
                | Self::PodAntiAffinity
                | Self::RunningAntiAffinity
        )
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
    /// Which of them are about the pod alone, so that the number of nodes says nothing.
    pub about_pod: BTreeSet<String>,
    /// What can never be met by any node.
    pub notes: Vec<String>,
    pub nearest: Option<Nearest>,
    /// What came of the attempt to remove other pods, if there was one.
    pub preemption: Option<String>,
}

impl Summary {
    pub(crate) fn count(&mut self, refusal: &Refusal, nodes: usize) {
        if let Refusal::Claim(text) = refusal {
            self.about_pod.insert(text.clone());
        }
        for text in refusal.texts() {
            *self.counts.entry(text).or_default() += nodes;
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return out.write_str("no nodes available to schedule pods");
        }
        let part = |(text, count): (&String, &usize)| match self.about_pod.contains(text) {
            true => text.clone(),
            false => format!("{count} {text}"),
        };
        let mut parts: Vec<String> = self.counts.iter().map(part).collect();
        parts.sort_unstable();
        write!(out, "0/{} nodes are available: {}.", self.nodes, parts.join(", "))?;
        if let Some(preemption) = &self.preemption {
            write!(out, " preemption: {preemption}")?;
        }
        self.notes.iter().try_for_each(|note| write!(out, " {note}."))
    }
}
