//! What the core wants done.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use km_mesos_proto::v1;
use km_offers::DeclineReason;
use km_podtask::PodKey;
use serde_json::Value;

use super::effects::OpId;

/// Output of the core, to be carried out in order where it goes to the same party. Calls to the master need no answer
/// except ACCEPT ([`super::Event::AcceptResult`]); operations on the API server answer with their `op`.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Launch tasks from offers of one agent and role.
    Accept {
        batch: u64,
        offers: Vec<v1::OfferId>,
        tasks: Vec<v1::TaskInfo>,
        refuse: Duration,
    },
    Decline {
        offers: Vec<v1::OfferId>,
        refuse: Duration,
        reason: DeclineReason,
    },
    /// For all roles.
    Suppress,
    /// For all roles.
    Revive,
    /// Says whether we will be away from machines by the start of their maintenance.
    AnswerInverse {
        offers: Vec<v1::OfferId>,
        accept: bool,
        refuse: Duration,
    },
    Kill {
        task_id: String,
        agent_id: Option<String>,
    },
    Acknowledge {
        task_id: String,
        agent_id: String,
        uuid: Vec<u8>,
    },
    /// Task and agent ids. Empty for implicit reconciliation.
    Reconcile(Vec<(String, String)>),
    Message {
        agent_id: String,
        executor_id: String,
        data: Vec<u8>,
    },
    /// Replaces all that the master knows of the framework. Answer with [`super::Event::FrameworkAnswer`].
    UpdateFramework {
        number: u64,
        info: Box<v1::FrameworkInfo>,
        suppressed_roles: Vec<String>,
        constraints: v1::scheduler::OfferConstraints,
    },
    /// End the subscription and begin another: it says what the framework is now.
    Resubscribe,
    /// The framework id is void: forget it and subscribe without one.
    ForgetFramework,
    /// Create a node; that it exists already is fine.
    CreateNode {
        op: OpId,
        node: Box<Node>,
    },
    /// JSON merge patch of a node, or of its status.
    PatchNode {
        op: OpId,
        name: String,
        patch: Value,
        status: bool,
    },
    DeleteNode {
        op: OpId,
        name: String,
    },
    /// JSON merge patch of a pod's status which sets one condition, if the pod still has that UID and no node.
    PatchPodStatus {
        op: OpId,
        pod: PodKey,
        uid: String,
        reason: String,
        message: String,
    },
    /// Set or (with none) clear `status.nominatedNodeName`, if the pod still has that UID and no node.
    NominatePod {
        op: OpId,
        pod: PodKey,
        uid: String,
        node: Option<String>,
    },
    /// Delete with the pod's own grace period, if it still has that UID. Before that set its condition
    /// `DisruptionTarget` with reason `PreemptionByScheduler`.
    PreemptPod {
        op: OpId,
        pod: PodKey,
        uid: String,
        message: String,
    },
    /// Delete with grace period 0, if the pod still has that UID.
    DeletePod {
        op: OpId,
        pod: PodKey,
        uid: String,
    },
    /// Delete with the pod's own grace period, if it still has that UID; with `budgets` only if its disruption budgets
    /// allow it ([`super::ApiFailure::Refused`] if not).
    EvictPod {
        op: OpId,
        pod: PodKey,
        uid: String,
        budgets: bool,
    },
    /// Read a pod from the API server itself. Reply with [`super::ApiReply::Pod`], none when its UID is another.
    FetchPod {
        op: OpId,
        pod: PodKey,
        uid: String,
    },
    /// See to it that the pod's phase is terminal: set `phase`, reason and message unless it is already.
    EndPod {
        op: OpId,
        pod: PodKey,
        uid: String,
        phase: &'static str,
        message: String,
    },
    /// Reserve a volume for a claim with that UID (`spec.claimRef`), if the volume is still of that resource version.
    ReserveVolume {
        op: OpId,
        volume: String,
        version: String,
        claim: PodKey,
        uid: String,
    },
    /// Tell the provisioner of a claim for which node its volume is to be made, if the claim is still of that resource
    /// version.
    SelectNode {
        op: OpId,
        claim: PodKey,
        version: String,
        node: String,
    },
    /// Reply with [`super::ApiReply::Pods`].
    ListPods {
        op: OpId,
    },
    /// A measured time, for the metrics.
    Observe(Timing),
    /// Best effort.
    EmitEvent {
        pod: PodKey,
        uid: String,
        kind: EventKind,
        message: String,
    },
}

impl Action {
    /// The id under which the core waits for the answer of the API server; none when it waits for none.
    pub fn operation(&self) -> Option<OpId> {
        match self {
            Self::CreateNode { op, .. }
            | Self::PatchNode { op, .. }
            | Self::DeleteNode { op, .. }
            | Self::PatchPodStatus { op, .. }
            | Self::NominatePod { op, .. }
            | Self::PreemptPod { op, .. }
            | Self::DeletePod { op, .. }
            | Self::EvictPod { op, .. }
            | Self::FetchPod { op, .. }
            | Self::EndPod { op, .. }
            | Self::ReserveVolume { op, .. }
            | Self::SelectNode { op, .. }
            | Self::ListPods { op } => Some(*op),
            _ => None,
        }
    }
}

/// Times that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// From a pod's arrival in the queue to its launch.
    QueueWait(Duration),
    /// From its launch to the executor's word that it is bound.
    BindLatency(Duration),
    /// From its arrival in the queue to the same word.
    Scheduling(Duration),
    /// From the question for all known tasks until all were heard of.
    Reconciliation(Duration),
}

/// The events that are written about pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Scheduled,
    FailedScheduling,
    /// Its task was lost, and the pod with it.
    TaskLost,
    /// It is to leave its node.
    Eviction,
    /// It makes room for a more important pod.
    Preempted,
}

impl EventKind {
    /// The event's `reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::FailedScheduling => "FailedScheduling",
            Self::TaskLost => "TaskLost",
            Self::Preempted => "Preempted",
            Self::Eviction => "TaintManagerEviction",
        }
    }

    /// The event's `type`.
    pub fn severity(self) -> &'static str {
        if matches!(self, Self::Scheduled | Self::Eviction | Self::Preempted) { "Normal" } else { "Warning" }
    }
}
