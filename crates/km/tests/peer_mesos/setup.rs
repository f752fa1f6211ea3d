//! What differs between the stages of the peer tests.

/// A Mesos and a scheduler to be started.
pub struct Setup {
    /// How many agents.
    pub agents: u16,
    /// Resources of each agent, as Mesos writes them; `{n}` is the agent's number.
    pub resources: &'static str,
    /// Further flags of the master, `NAME=VALUE`.
    pub master_flags: Vec<String>,
    /// Further flags of our scheduler, `--name=value`.
    pub scheduler_flags: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            agents: 2,
            resources: "cpus:4;mem:4096;disk:10240;ports:[31{n}00-31{n}99]",
            master_flags: never_lost(),
            scheduler_flags: Vec::new(),
        }
    }
}

/// The patience of a master that is to lose no agent, however slow the machine.
fn never_lost() -> Vec<String> {
    vec!["agent_ping_timeout=1secs".to_owned(), "max_agent_ping_timeouts=30".to_owned()]
}

impl Setup {
    /// A master that gives agents up after five seconds, instead of Mesos' 75.
    pub fn loses_agents_soon(mut self) -> Self {
        self.master_flags = vec!["agent_ping_timeout=1secs".to_owned(), "max_agent_ping_timeouts=5".to_owned()];
        self
    }

    pub fn with_agents(mut self, agents: u16) -> Self {
        self.agents = agents;
        self
    }

    pub fn with_scheduler_flag(mut self, flag: impl Into<String>) -> Self {
        self.scheduler_flags.push(flag.into());
        self
    }

    pub fn with_master_flag(mut self, flag: impl Into<String>) -> Self {
        self.master_flags.push(flag.into());
        self
    }
}
