//! What the master knows about one registered agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_mesos_proto::{resources::Resources, v1};

use super::{event::ConnectionId, validation};

/// A registered agent, connected or (for the time of its missed pings) not.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub id: String,
    pub info: v1::AgentInfo,
    pub version: String,
    /// Where it connected from.
    pub ip: String,
    pub connection: Option<ConnectionId>,
    pub registered: Duration,
    pub reregistered: Option<Duration>,
    /// All resources, unallocated, as reservations and volumes have shaped them.
    pub total: Resources,
    /// What tasks and executors hold, allocated, by framework.
    pub used: BTreeMap<String, Resources>,
    /// Ids of outstanding offers of this agent.
    pub offers: BTreeSet<String>,
    pub inverse_offers: BTreeSet<String>,
    /// (framework, task) ids of all tasks here that are not removed yet.
    pub tasks: BTreeSet<(String, String)>,
    /// Operations with an id, until their end is acknowledged, by uuid.
    pub operations: BTreeMap<Vec<u8>, v1::Operation>,
    /// Custom and default executors by framework and id.
    pub executors: BTreeMap<String, BTreeMap<String, v1::ExecutorInfo>>,
    /// Kills to repeat when the agent comes back.
    pub killed: BTreeMap<(String, String), Option<v1::KillPolicy>>,
    /// Pings without answer so far.
    pub missed_pings: u32,
    pub deactivated: bool,
    pub drain: Option<v1::DrainInfo>,
    pub drain_start: Option<Duration>,
}

impl Agent {
    pub fn new(id: String, info: v1::AgentInfo, version: String, ip: String, now: Duration) -> Self {
        let total = validation::resource::read(&info.resources);
        Self {
            id,
            info,
            version,
            ip,
            connection: None,
            registered: now,
            reregistered: None,
            total,
            used: BTreeMap::new(),
            offers: BTreeSet::new(),
            inverse_offers: BTreeSet::new(),
            tasks: BTreeSet::new(),
            operations: BTreeMap::new(),
            executors: BTreeMap::new(),
            killed: BTreeMap::new(),
            missed_pings: 0,
            deactivated: false,
            drain: None,
            drain_start: None,
        }
    }

    pub fn connected(&self) -> bool {
        self.connection.is_some()
    }

    pub fn draining(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.state == v1::DrainState::Draining as i32)
    }

    /// Whether its resources may be offered.
    pub fn offerable(&self) -> bool {
        self.connected() && !self.deactivated
    }

    /// Ids of a framework's tasks here.
    pub fn tasks_of<'a>(&'a self, framework: &'a str) -> impl Iterator<Item = &'a str> {
        let own = self.tasks.range((framework.to_owned(), String::new())..);
        own.take_while(move |(owner, _)| owner == framework).map(|(_, task)| task.as_str())
    }

    /// All that tasks and executors use, unallocated.
    pub fn all_used(&self) -> Resources {
        self.used.values().map(Resources::unallocated).sum()
    }

    pub fn executor(&self, framework: &str, executor: &str) -> Option<&v1::ExecutorInfo> {
        self.executors.get(framework)?.get(executor)
    }

    pub fn executor_ids(&self, framework: &str) -> Vec<v1::ExecutorId> {
        let ids = self.executors.get(framework).into_iter().flat_map(BTreeMap::keys);
        ids.map(|id| v1::ExecutorId { value: id.clone() }).collect()
    }

    /// As messages name it.
    pub fn described(&self) -> String {
        format!("{} at {} ({})", self.id, self.pid(), self.info.hostname)
    }

    /// Its address in the form of libprocess: clients take host and port from it.
    pub fn pid(&self) -> String {
        format!("slave(1)@{}:{}", self.ip, self.info.port.unwrap_or(5051))
    }
}
