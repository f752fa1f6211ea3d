//! The embedded Mesos agent: events and the time in, actions out.
//!
//! The agent registers with the master over the link, starts executors for the tasks it is given, speaks the executor
//! API with them, keeps every status update until the framework acknowledged it, and survives its own restart by
//! checkpoints. It decides all of that here; sockets, processes and files are the shell's.
//!
//! Rules are those of Apache Mesos 1.11 where they can be seen from outside.

mod builtin;
mod drain;
mod environment;
mod event;
mod executor;
mod executor_api;
mod exit;
mod framework;
mod kill;
mod launch;
mod master_link;
mod operations;
mod paths;
mod reconfiguration;
mod recovery;
mod shutdown;
mod status;
mod task;
#[cfg(test)]
mod tests;
mod timers;
mod updates;
mod view;
mod volumes;

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1;
use rand::{Rng, SeedableRng, rngs::StdRng};

pub use environment::duration_text;
pub use event::{Action, Event, Launch, Refusal};
pub use paths::{path_component, sandbox};
pub use reconfiguration::Reconfiguration;
pub use recovery::{Recovered, RecoveryError};
pub use view::Counts;
pub use volumes::Mount;

use framework::Framework;
use master_link::MasterLink;
use timers::{Timer, Timers};
use view::Completed;

/// What an agent of this kind can do, in Apache Mesos' order. It has no resource providers.
pub const CAPABILITIES: [v1::agent_info::capability::Type; 7] = {
    use v1::agent_info::capability::Type::*;
    [
        MultiRole,
        HierarchicalRole,
        ReservationRefinement,
        ResizeVolume,
        AgentOperationFeedback,
        AgentDraining,
        TaskResourceLimits,
    ]
};

/// How an agent is set up. Times are the flags of the same names.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host name, port, resources and attributes. The id is left unset: it comes from the master or a checkpoint.
    pub info: v1::AgentInfo,
    /// The version told to the master.
    pub version: String,
    /// The address executors reach the agent at.
    pub ip: String,
    /// Where sandboxes are; an absolute path.
    pub work_dir: String,
    /// How long an executor may take from its launch, fetching included, to its SUBSCRIBE.
    pub executor_registration_timeout: Duration,
    /// How long a restarted agent waits for its executors to subscribe again.
    pub executor_reregistration_timeout: Duration,
    /// How long an executor may take from SHUTDOWN to its end, when its ExecutorInfo names no time of its own.
    pub executor_shutdown_grace_period: Duration,
    /// How long executors wait for a restarted agent; told to them in their environment.
    pub recovery_timeout: Duration,
    /// The first connection attempts back off by a random time up to this, doubled each time, up to a minute.
    pub registration_backoff_factor: Duration,
    /// Randomness for ids and back-off; a new one for every start, or ids would repeat.
    pub seed: u64,
}

/// The agent. See the module's description.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    /// As the flags say, with the id once there is one.
    info: v1::AgentInfo,
    /// What reservations and volumes made of its resources.
    resources: Vec<v1::Resource>,
    /// It differs from what an earlier start wrote down.
    changed: bool,
    rng: StdRng,
    now: Duration,
    phase: Phase,
    link: MasterLink,
    frameworks: BTreeMap<String, Framework>,
    operations: operations::Operations,
    /// Which executor (and, for built-in ones, which task) a container belongs to.
    containers: BTreeMap<String, Owner>,
    draining: Option<drain::Draining>,
    timers: Timers,
    completed: Completed,
    out: Vec<Action>,
}

/// What the agent as a whole is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Restarted, and waiting for executors to subscribe again. Not yet connected to the master.
    Recovering,
    Running,
    /// Killing everything in order to end.
    Leaving {
        unregister: bool,
    },
    Ended,
}

/// The owner of a container. `task` is set for tasks that the agent runs itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    framework: String,
    executor: String,
    task: Option<String>,
}

impl Agent {
    /// An agent that starts with nothing, or with what an earlier one left behind (see [`Recovered`]). After that it
    /// wants [`Event::Start`].
    pub fn new(config: Config, recovered: Recovered) -> Self {
        let mut agent = Self {
            info: config.info.clone(),
            resources: config.info.resources.clone(),
            changed: false,
            rng: StdRng::seed_from_u64(config.seed),
            config,
            now: Duration::ZERO,
            phase: Phase::Recovering,
            link: MasterLink::default(),
            frameworks: BTreeMap::new(),
            operations: BTreeMap::new(),
            containers: BTreeMap::new(),
            draining: None,
            timers: Timers::default(),
            completed: Completed::default(),
            out: Vec::new(),
        };
        agent.adopt(recovered);
        agent
    }

    /// Takes in one event. `now` is the time since the Unix epoch and never runs backwards. The actions are to be
    /// carried out in order; a write must be durable before the next action is begun.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.now = self.now.max(now);
        self.dispatch(event);
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.fire(timer);
        }
        self.end_drain_when_nothing_is_left();
        self.end_when_nothing_is_left();
        std::mem::take(&mut self.out)
    }

    /// When the agent wants [`Event::Tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    /// Whether the agent is connected to and accepted by a master.
    pub fn is_registered(&self) -> bool {
        self.link.is_registered()
    }

    /// The agent as it presents itself; the id is set once it has one.
    pub fn info(&self) -> &v1::AgentInfo {
        &self.info
    }

    /// Its resources as reservations and volumes have shaped them.
    pub fn resources(&self) -> &[v1::Resource] {
        &self.resources
    }

    fn dispatch(&mut self, event: Event) {
        if self.phase == Phase::Ended {
            return;
        }
        match event {
            Event::Start => self.start(),
            Event::Tick => {}
            Event::Master { link, message } => self.master_said(link, message),
            Event::LinkClosed { link, reason } => self.link_closed(link, &reason),
            Event::Subscribe { connection, call } => self.subscribe(connection, call),
            Event::ExecutorCall(call) => self.executor_call(call),
            Event::StreamClosed { connection } => self.stream_closed(connection),
            Event::Launched { container, pid } => self.launched(&container, pid),
            Event::LaunchFailed { container, message } => self.launch_failed(&container, &message),
            Event::Exited { container, status } => self.exited(&container, status),
            Event::Shutdown => self.leave(true),
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Link => self.link_timer(),
            Timer::RecoveryEnd => self.end_recovery(),
            Timer::Heartbeat => self.heartbeat(),
            Timer::Executor(framework, executor) => self.executor_timer(&framework, &executor),
            Timer::Operation(key) => self.tell_operation(&key),
            Timer::Retry(framework, task) => self.retry(&framework, &task),
            Timer::KillGrace(framework, task) => self.kill_grace_over(&framework, &task),
            Timer::Completion(framework, task) => self.completion_time_over(&framework, &task),
        }
    }

    fn act(&mut self, action: Action) {
        self.out.push(action);
    }

    fn agent_id(&self) -> v1::AgentId {
        self.info.id.clone().unwrap_or_default()
    }

    /// A random (version 4) UUID.
    fn uuid(&mut self) -> [u8; 16] {
        let mut bytes: [u8; 16] = self.rng.random();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes
    }

    fn container_id(&mut self) -> String {
        let hex: String = self.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}
