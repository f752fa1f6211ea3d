//! The size and the habits of a simulated cluster.

use std::time::Duration;

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub agents: usize,
    pub agent_milli_cpu: i64,
    pub agent_megabytes: i64,
    /// Most pods at a time; all of them fit.
    pub max_pods: usize,
    /// Mean time between two things that users do.
    pub work_pause: Duration,
    /// Mean time between two faults.
    pub fault_pause: Duration,
    /// Longest delay of a message.
    pub latency: Duration,
    /// How long the cluster has to come to rest after the faults.
    pub rest: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            agents: 4,
            agent_milli_cpu: 4000,
            agent_megabytes: 8192,
            max_pods: 24,
            work_pause: Duration::from_secs(2),
            fault_pause: Duration::from_secs(8),
            latency: Duration::from_millis(40),
            rest: Duration::from_secs(1200),
        }
    }
}
