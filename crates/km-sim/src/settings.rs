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
    /// Whether some pods claim persistent volumes.
    pub claims: bool,
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
    /// Measures the cores of scheduler and master. When everything rests, the scheduler then reconciles, lists everything
    /// anew, and is started again with one more pod to place.
    pub meter: Option<Meter>,
}

/// What costs are measured by.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// The time since any start: best the processor time of the thread.
    pub time: fn() -> Duration,
    /// The bytes that the process holds of its allocator.
    pub memory: fn() -> usize,
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
            claims: true,
            first_pods: 0,
            work_pause: Some(Duration::from_secs(8) / size),
            fault_pause: Some(Duration::from_secs(20)),
            agent_fault_pause: Duration::from_secs(60) / size,
            operator_pause: Some(Duration::from_secs(15)),
            latency: Duration::from_millis(40),
            ping: Duration::from_secs(3),
            rest: Duration::from_secs(1800),
            meter: None,
        }
    }

    /// A cluster without faults in which users create so many pods at once, for measurements. Agents are as large as it
    /// takes.
    pub fn growth(agents: usize, pods: usize, meter: Meter) -> Self {
        let size = Self::new(agents, Duration::from_secs(60));
        let each = i64::try_from(pods.div_ceil(agents.max(1))).unwrap_or(i64::MAX);
        Self {
            // The largest pods take 250 milli-CPUs, and each 64 MB. Something stays free, so that the last ones fit.
            agent_milli_cpu: size.agent_milli_cpu.max(1000 * (1 + each.saturating_mul(250) / 1000)),
            agent_megabytes: size.agent_megabytes.max(1024 + each.saturating_mul(64)),
            schedulers: 1,
            rivals: 0,
            max_pods: pods + 1,
            claims: false,
            first_pods: pods,
            work_pause: None,
            fault_pause: None,
            operator_pause: None,
            ping: Duration::from_secs(15),
            meter: Some(meter),
            ..size
        }
    }
}
