//! What may be set about the scheduler's decisions.

use std::{sync::Arc, time::Duration};

use km_kube::pod::DefaultLimits;
use km_mesos_proto::v1;
use km_placement::Policy;
use km_podtask::{PortStrategy, ResourceNames, limits::Accounting};

use super::{DefaultSpread, Framework};

/// Settings of the core. Durations of zero mean at once.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the framework is to Mesos at first.
    pub framework: Arc<Framework>,
    /// Values of `spec.schedulerName` that mean us.
    pub scheduler_names: Vec<String>,
    /// The executor without its resources and host name, with its id.
    pub executor: v1::ExecutorInfo,
    /// Earlier prototypes: executors of these that still run go on.
    pub former_executors: Vec<v1::ExecutorInfo>,
    /// What the executor itself takes.
    pub executor_milli_cpu: i64,
    pub executor_memory_bytes: i64,
    /// How resources other than CPUs, memory, disk and ports are called.
    pub resource_names: ResourceNames,
    pub accounting: Accounting,
    pub default_limits: DefaultLimits,
    pub port_strategy: PortStrategy,
    /// Whether tasks carry discovery info.
    pub discovery: bool,
    pub policy: Policy,
    /// How pods are spread that say nothing about it.
    pub default_spread: DefaultSpread,
    /// How long an offer is kept while pods wait that don't fit it.
    pub offer_ttl: Duration,
    pub offer_linger: Duration,
    /// How long offers are kept when nothing waits: the next pod of a series finds them still there.
    pub idle_hold: Duration,
    /// How long Mesos is to keep declined resources for others.
    pub refuse: Duration,
    /// Least time between two REVIVE calls.
    pub revive_pause: Duration,
    /// Pods and offers that come within this time are placed together.
    pub batch: Duration,
    /// How long after a REVIVE a pod is called unschedulable when not all agents made an offer.
    pub offer_wait: Duration,
    /// First and longest pause before an unschedulable pod asks for offers again.
    pub backoff: (Duration, Duration),
    /// How long a host port of an agent is not used when somebody else on the machine has it.
    pub taken_port_pause: Duration,
    /// How long the Node of a lost agent stays.
    pub node_grace: Duration,
    /// How long after a subscription an agent that the master doesn't know may still come back.
    pub unknown_grace: Duration,
    /// Pause between two implicit reconciliations; zero for none.
    pub reconcile_interval: Duration,
    /// The same between the first, which comes with the subscription, and the second.
    pub second_implicit: Duration,
    /// Least time between two reconciliations of everything.
    pub reconcile_cooldown: Duration,
    /// Longest pause between two questions for the same tasks.
    pub explicit_backoff: Duration,
    /// How long after the first subscription nothing is launched, so that unbound launches of an earlier scheduler
    /// show up first.
    pub settle_time: Duration,
    /// How long before the start of its maintenance an agent is to be emptied.
    pub maintenance_lead: Duration,
    /// Whether agents with GPUs are kept for pods that tolerate it.
    pub taint_gpu_agents: bool,
    /// UNIX time at the core's time zero: what the API server and Mesos date is compared with it.
    pub unix_start: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            framework: Arc::default(),
            scheduler_names: vec!["default-scheduler".to_owned()],
            executor: v1::ExecutorInfo::default(),
            former_executors: Vec::new(),
            executor_milli_cpu: 250,
            executor_memory_bytes: 128 << 20,
            resource_names: ResourceNames::default(),
            accounting: Accounting::Requests,
            default_limits: DefaultLimits::default(),
            port_strategy: PortStrategy::Wildcard,
            discovery: false,
            policy: Policy::default(),
            default_spread: DefaultSpread::Auto,
            offer_ttl: Duration::from_secs(5),
            offer_linger: Duration::from_secs(120),
            idle_hold: Duration::from_secs(1),
            refuse: Duration::from_secs(3600),
            revive_pause: Duration::from_millis(100),
            batch: Duration::from_millis(10),
            offer_wait: Duration::from_millis(1500),
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            taken_port_pause: Duration::from_secs(300),
            node_grace: Duration::from_secs(60),
            unknown_grace: Duration::from_secs(600),
            reconcile_interval: Duration::from_secs(300),
            second_implicit: Duration::from_secs(15),
            reconcile_cooldown: Duration::from_secs(15),
            explicit_backoff: Duration::from_secs(120),
            settle_time: Duration::from_millis(300),
            maintenance_lead: Duration::from_secs(600),
            taint_gpu_agents: true,
            unix_start: Duration::ZERO,
        }
    }
}
