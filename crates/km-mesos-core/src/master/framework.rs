//! What the master knows about one framework.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use km_mesos_proto::v1::{self, framework_info::capability::Type as Capability, scheduler::OfferConstraints};

use super::{event::ConnectionId, task::Task};
use crate::framework_info::{has_capability, roles_of};

/// A framework: connected, waiting for its scheduler to come back, or recovered from its agents after a restart.
#[derive(Clone, Debug)]
pub(super) struct Framework {
    pub id: String,
    pub info: v1::FrameworkInfo,
    /// The scheduler's stream and its `Mesos-Stream-Id`.
    pub stream: Option<(ConnectionId, String)>,
    /// Known from agents only: its scheduler never subscribed to this master.
    pub recovered: bool,
    pub registered: Duration,
    pub reregistered: Option<Duration>,
    pub unregistered: Option<Duration>,
    pub suppressed: BTreeSet<String>,
    pub constraints: Option<OfferConstraints>,
    pub tasks: BTreeMap<String, Task>,
    pub unreachable_tasks: BTreeMap<String, v1::Task>,
    pub completed_tasks: VecDeque<v1::Task>,
    /// Ids of its outstanding offers.
    pub offers: BTreeSet<String>,
    pub inverse_offers: BTreeSet<String>,
    /// Counts disconnections, so that an old failover timer is recognised.
    pub disconnections: u64,
}

impl Framework {
    pub fn new(id: String, info: v1::FrameworkInfo, now: Duration) -> Self {
        Self {
            id,
            info,
            stream: None,
            recovered: false,
            registered: now,
            reregistered: None,
            unregistered: None,
            suppressed: BTreeSet::new(),
            constraints: None,
            tasks: BTreeMap::new(),
            unreachable_tasks: BTreeMap::new(),
            completed_tasks: VecDeque::new(),
            offers: BTreeSet::new(),
            inverse_offers: BTreeSet::new(),
            disconnections: 0,
        }
    }

    pub fn connected(&self) -> bool {
        self.stream.is_some()
    }

    pub fn has(&self, capability: Capability) -> bool {
        has_capability(&self.info, capability)
    }

    pub fn partition_aware(&self) -> bool {
        self.has(Capability::PartitionAware)
    }

    pub fn roles(&self) -> BTreeSet<String> {
        roles_of(&self.info)
    }

    /// The state for a task that is lost: `aware` when the framework knows of partitions, else LOST.
    pub fn lost_state(&self, aware: v1::TaskState) -> v1::TaskState {
        if self.partition_aware() { aware } else { v1::TaskState::TaskLost }
    }

    /// Remembers a completed task; `limit` tasks are kept.
    pub fn complete(&mut self, task: v1::Task, limit: usize) {
        self.completed_tasks.push_back(task);
        while self.completed_tasks.len() > limit {
            self.completed_tasks.pop_front();
        }
    }
}
