//! What the master is started with.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_mesos_proto::{
    resources::{Quantities, Scalar},
    v1,
};

/// The master's settings. Defaults are those of Apache Mesos 1.11.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this master is: `id` is the uuid that all ids it gives begin with.
    pub info: v1::MasterInfo,
    /// Time between HEARTBEAT events.
    pub heartbeat_interval: Duration,
    /// Time between pings of an agent, and how long its answer may take.
    pub agent_ping_timeout: Duration,
    /// How many pings in a row an agent may miss before it counts as unreachable.
    pub max_agent_ping_timeouts: u32,
    /// How long an agent known before a restart may take to come back.
    pub agent_reregister_timeout: Duration,
    /// Time between allocations over all agents.
    pub allocation_interval: Duration,
    /// How long an offer may stay unanswered; none = for ever.
    pub offer_timeout: Option<Duration>,
    /// The only roles that frameworks may have; none = any.
    pub roles: Option<BTreeSet<String>>,
    /// Weights of roles at the first start.
    pub weights: BTreeMap<String, f64>,
    /// Whether frameworks may run as user `root`.
    pub root_submissions: bool,
    pub max_completed_frameworks: usize,
    pub max_completed_tasks_per_framework: usize,
    /// An agent's remainder is offered when it covers any one of these.
    pub min_allocatable: Vec<Quantities>,
    /// How often agents that are lost for long are forgotten.
    pub registry_gc_interval: Duration,
    /// How many unreachable and how many gone agents are remembered, and how long.
    pub registry_max_agent_count: usize,
    pub registry_max_agent_age: Duration,
    /// Most operator event streams; the oldest is closed beyond that.
    pub max_operator_streams: usize,
    /// Command line flags as GET_FLAGS and `/flags` show them.
    pub flags: BTreeMap<String, String>,
    /// The cluster's name, if any.
    pub cluster: Option<String>,
}

impl Config {
    /// The defaults of Apache Mesos for a master with the given identity.
    pub fn new(info: v1::MasterInfo) -> Self {
        let least = |name: &str, thousandths: i64| {
            let mut amounts = Quantities::default();
            amounts.add(name, Scalar(thousandths));
            amounts
        };
        Self {
            info,
            heartbeat_interval: Duration::from_secs(15),
            agent_ping_timeout: Duration::from_secs(15),
            max_agent_ping_timeouts: 5,
            agent_reregister_timeout: Duration::from_secs(600),
            allocation_interval: Duration::from_secs(1),
            offer_timeout: None,
            roles: None,
            weights: BTreeMap::new(),
            root_submissions: true,
            max_completed_frameworks: 50,
            max_completed_tasks_per_framework: 1000,
            min_allocatable: vec![least("cpus", 10), least("mem", 32_000)],
            registry_gc_interval: Duration::from_secs(15 * 60),
            registry_max_agent_count: 100 * 1024,
            registry_max_agent_age: Duration::from_secs(2 * 7 * 86_400),
            max_operator_streams: 1000,
            flags: BTreeMap::new(),
            cluster: None,
        }
    }
}
