//! The size and the habits of a simulated cluster.

use std::time::Duration;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long things fail.
    pub time: Duration,
    pub agents: usize,
    /// Processes of our scheduler; one leads, the others stand by.
    pub schedulers: usize,
    /// Frameworks that compete for the same agents.
    pub rivals: usize,
    pub agent_milli_cpu: i64,
    pub agent_megabytes: i64,
    /// Most pods at a time; all of them fit.
    pub max_pods: usize,
    /// Pods that are there from the beginning.
    pub first_pods: usize,
    /// Mean time between two things that users do; none when they do nothing.
    pub work_pause: Option<Duration>,
    /// Mean time between two faults of what there is one of: master, API server, schedulers. None: no faults at all.
    pub fault_pause: Option<Duration>,
    /// Mean time between two faults of agents.
    pub agent_fault_pause: Duration,
    /// Mean time between two things that operators do; none when they do nothing.
    pub operator_pause: Option<Duration>,
    /// Longest usual delay of a message.
    pub latency: Duration,
    /// Time between a master's pings of an agent; three are missed before it counts as unreachable.
    pub ping: Duration,
    /// How long the cluster has to come to rest after the faults.
    pub rest: Duration,
    /// Measures the scheduler's core: the time since any start.
    pub stopwatch: Option<fn() -> Duration>,
    /// Whether the scheduler is started again when everything rests, with one more pod to place.
    pub restart: bool,
}

impl Settings {
    /// A cluster of so many agents under faults for so long. Users and faults grow with the number of agents.
    pub fn new(agents: usize, time: Duration) -> Self {
        let size = u32::try_from(agents.max(1)).unwrap_or(u32::MAX);
        Self {
            time,
            agents,
            schedulers: 2,
            rivals: 2,
            agent_milli_cpu: 4000,
            agent_megabytes: 8192,
            max_pods: agents * 6,
            first_pods: 0,
            work_pause: Some(Duration::from_secs(8) / size),
            fault_pause: Some(Duration::from_secs(20)),
            agent_fault_pause: Duration::from_secs(60) / size,
            operator_pause: Some(Duration::from_secs(15)),
            latency: Duration::from_millis(40),
            ping: Duration::from_secs(3),
            rest: Duration::from_secs(1800),
            stopwatch: None,
            restart: false,
        }
    }

    /// A cluster without faults in which users create so many pods at once, for measurements. Later its scheduler is
    /// started again.
    pub fn growth(agents: usize, pods: usize, stopwatch: fn() -> Duration) -> Self {
        Self {
            schedulers: 1,
            rivals: 0,
            max_pods: pods + 1,
            first_pods: pods,
            work_pause: None,
            fault_pause: None,
            operator_pause: None,
            ping: Duration::from_secs(15),
            stopwatch: Some(stopwatch),
            restart: true,
            ..Self::new(agents, Duration::from_secs(60))
        }
    }
}
