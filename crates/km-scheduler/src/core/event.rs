//! What the core is told.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use km_mesos_proto::v1;

use km_podtask::PodKey;

use super::{Framework, FrameworkAnswer, Subscription, effects::OpId};

/// Input of the core. Mesos events may be lost with the connection and repeated after it; pod and node events may be
/// repeated, but the last one of an object is its newest state.
#[derive(Clone, Debug)]
pub enum Event {
    Subscribed(Box<Subscription>),
    /// The master refused a subscription, for good unless something about the framework changes.
    SubscriptionRefused(String),
    /// What the framework is to be from now on.
    Configured(Arc<Framework>),
    /// What became of an UPDATE_FRAMEWORK. Never coming is fine if the subscription ends.
    FrameworkAnswer {
        number: u64,
        answer: FrameworkAnswer,
    },
    /// The event stream ended.
    Disconnected,
    /// The master says that the framework was removed or is completed.
    FrameworkRemoved,
    Offers(Vec<v1::Offer>),
    Rescinded(v1::OfferId),
    /// The master wants machines for their maintenance.
    InverseOffers(Vec<v1::InverseOffer>),
    InverseRescinded(v1::OfferId),
    Update(Box<v1::TaskStatus>),
    /// An executor ended, or (without executor) an agent was removed.
    Failure {
        agent_id: Option<String>,
        executor_id: Option<String>,
    },
    /// All agents that the master knows, from the operator API. Never coming is fine.
    Agents(Vec<AgentSeen>),
    /// All pods and nodes were applied once. Before that nothing is launched or concluded.
    CachesSynced,
    PodApplied(Arc<Pod>),
    PodDeleted(Arc<Pod>),
    NodeApplied(Arc<Node>),
    NodeDeleted(String),
    /// A namespace with its labels; without labels also one that is gone.
    Namespace {
        name: String,
        labels: BTreeMap<String, String>,
    },
    /// A service with its selector; without one also a service that is gone.
    Service {
        id: PodKey,
        selector: BTreeMap<String, String>,
    },
    BudgetApplied(Arc<PodDisruptionBudget>),
    BudgetDeleted(Arc<PodDisruptionBudget>),
    /// A claim to a persistent volume; none when it is gone. It is named as pods are.
    Claim {
        id: PodKey,
        claim: Option<Arc<PersistentVolumeClaim>>,
    },
    /// A persistent volume; none when it is gone.
    Volume {
        name: String,
        volume: Option<Arc<PersistentVolume>>,
    },
    /// None when it is gone.
    StorageClass {
        name: String,
        class: Option<Arc<StorageClass>>,
    },
    /// Answer to an action with an operation id. Must come exactly once, also after a failure.
    Api {
        op: OpId,
        reply: ApiReply,
    },
    /// What became of an ACCEPT call.
    AcceptResult {
        batch: u64,
        outcome: CallOutcome,
    },
    /// A person asks.
    Request(Request),
    Tick,
}

/// An agent as the master describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentSeen {
    pub id: String,
    pub hostname: String,
    pub attributes: Vec<v1::Attribute>,
    /// All that it has.
    pub resources: Vec<v1::Resource>,
    /// Whether it is connected and not deactivated.
    pub active: bool,
    /// Region and zone.
    pub domain: Option<(String, String)>,
    /// Whether the master empties it.
    pub draining: bool,
    /// Whether it gets no more tasks.
    pub deactivated: bool,
    pub maintenance: Maintenance,
}

/// What the master's schedule says of the maintenance of an agent's machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Maintenance {
    /// The schedule isn't shown to us: inverse offers and offers tell of it.
    #[default]
    Untold,
    NotPlanned,
    Planned(v1::Unavailability),
}

/// Answers of the API server.
#[derive(Clone, Debug)]
pub enum ApiReply {
    Done,
    /// The pod as it is now, read from the API server itself; none when there is no such pod (any more).
    Pod(Option<Arc<Pod>>),
    Pods(PodListing),
    Failed(ApiFailure),
}

/// A complete and fresh list of pods.
#[derive(Clone, Debug, Default)]
pub struct PodListing {
    pub uids: Vec<String>,
    /// Whether the API server is provably the one that keeps our framework id. An empty list of another or a wiped one
    /// proves nothing.
    pub ours: bool,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// The object is not there, or is another one (UID precondition).
    Gone,
    /// It can't work whatever the number of tries.
    Refused(String),
    /// The API server can't be reached or is overloaded: worth another try.
    Unavailable(String),
}

/// What is known of a call to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// 202.
    Accepted,
    /// The master refused it: nothing of it happens.
    Refused,
    /// No answer: it may or may not have arrived.
    InDoubt,
}

/// What a person may ask over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Explicit reconciliation of all tasks.
    Explicit,
    /// Implicit reconciliation.
    Implicit,
    /// All executors are to end with their pods.
    Kamikaze,
}
