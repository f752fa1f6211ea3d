//! The world: everything that exists, and the queue of what is going to happen.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use km_mesos_core::{
    agent::Agent,
    link::{AgentMessage, MasterMessage},
    master::{ConnectionId, Master, Registry},
};
use km_mesos_proto::v1;
use km_scheduler::core::{Action, ApiReply, CallOutcome, Event};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{Report, Violation, api::Api, executor::Executor, faults::Fault, scheduler::Scheduler, settings::Settings};

/// Virtual time starts here: master and agents count from the epoch.
const START: Duration = Duration::from_secs(1_700_000_000);
/// How much of the past a violation shows.
const TRACE: usize = 200;

/// Something on its way.
pub(crate) enum Delivery {
    MasterTick,
    AgentTick(usize),
    SchedulerTick,
    /// A scheduler's SUBSCRIBE arrives.
    Subscribe {
        life: u64,
        connection: ConnectionId,
    },
    /// A scheduler's call arrives. `batch` asks for an answer.
    Call {
        life: u64,
        stream: String,
        call: Box<v1::scheduler::Call>,
        batch: Option<u64>,
    },
    AcceptResult {
        life: u64,
        batch: u64,
        outcome: CallOutcome,
    },
    ToScheduler {
        connection: ConnectionId,
        event: Box<v1::scheduler::Event>,
    },
    SchedulerClosed {
        connection: ConnectionId,
    },
    /// An agent opens a link.
    Link {
        agent: usize,
        life: u64,
        link: u64,
        connection: ConnectionId,
        register: Box<AgentMessage>,
    },
    ToMaster {
        agent: usize,
        connection: ConnectionId,
        message: Box<AgentMessage>,
    },
    ToAgent {
        agent: usize,
        connection: ConnectionId,
        message: Box<MasterMessage>,
    },
    LinkClosed {
        agent: usize,
        life: u64,
        link: u64,
    },
    MasterSawEnd {
        connection: ConnectionId,
    },
    /// A container's process starts.
    Started {
        agent: usize,
        container: String,
    },
    ExecutorSubscribes {
        agent: usize,
        container: String,
    },
    ToExecutor {
        agent: usize,
        container: String,
        connection: u64,
        event: Box<v1::executor::Event>,
    },
    ExecutorCall {
        agent: usize,
        container: String,
        call: Box<v1::executor::Call>,
    },
    ExecutorStreamClosed {
        agent: usize,
        container: String,
        connection: u64,
    },
    /// An executor's next step with a task: binding, or running what is bound.
    Progress {
        agent: usize,
        container: String,
        task: String,
    },
    /// Executors look for deletions.
    Scan,
    Watch {
        epoch: u64,
        event: Box<Event>,
    },
    /// The scheduler's watch lists everything anew.
    Relist {
        epoch: u64,
    },
    Operation {
        life: u64,
        action: Box<Action>,
    },
    Reply {
        life: u64,
        op: u64,
        reply: Box<ApiReply>,
    },
    SchedulerStarts,
    MasterStarts,
    AgentStarts(usize),
    ApiUp,
    Work,
    Fault(Fault),
    Agents {
        life: u64,
    },
}

/// A simulated host.
pub(crate) struct Host {
    pub hostname: String,
    pub core: Option<Agent>,
    /// Counts the starts of the agent's process.
    pub life: u64,
    /// The checkpoint directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The open link: its number on the agent's side, and its connection on the master's.
    pub link: Option<(u64, ConnectionId)>,
    /// Until when the agent reaches no master.
    pub cut_off_until: Duration,
    /// By container.
    pub executors: BTreeMap<String, Executor>,
}

pub(crate) struct World {
    pub seed: u64,
    pub settings: Settings,
    pub rng: StdRng,
    pub now: Duration,
    /// When the faults end.
    faults_end: Duration,
    queue: BTreeMap<(Duration, u64), Delivery>,
    sequence: u64,
    /// When the last message of each ordered channel arrives.
    channels: BTreeMap<String, Duration>,
    pub master: Option<Master>,
    pub master_lives: u64,
    pub registry: Registry,
    pub agents: Vec<Host>,
    pub scheduler: Scheduler,
    pub api: Api,
    pub next_connection: u64,
    pub report: Report,
    pub trace: VecDeque<String>,
}

impl World {
    pub fn new(seed: u64, duration: Duration) -> Self {
        let settings = Settings::default();
        let mut world = Self {
            seed,
            rng: StdRng::seed_from_u64(seed),
            now: START,
            faults_end: START + duration,
            queue: BTreeMap::new(),
            sequence: 0,
            channels: BTreeMap::new(),
            master: None,
            master_lives: 0,
            registry: Registry::default(),
            agents: Vec::new(),
            scheduler: Scheduler::default(),
            api: Api::default(),
            next_connection: 0,
            report: Report::default(),
            trace: VecDeque::new(),
            settings,
        };
        world.at(Duration::ZERO, Delivery::MasterStarts);
        for number in 0..world.settings.agents {
            world.agents.push(Host {
                hostname: format!("host{number}"),
                core: None,
                life: 0,
                files: BTreeMap::new(),
                link: None,
                cut_off_until: Duration::ZERO,
                executors: BTreeMap::new(),
            });
            world.at(Duration::from_millis(10), Delivery::AgentStarts(number));
        }
        world.at(Duration::from_millis(20), Delivery::SchedulerStarts);
        world.at(Duration::from_secs(1), Delivery::Work);
        world.at(Duration::from_secs(1), Delivery::Scan);
        world.plan_fault();
        world
    }

    /// Lets the faults have their time, then waits for quiet.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.run_until(self.faults_end)?;
        self.end_faults();
        self.run_until(self.faults_end + self.settings.rest)?;
        self.check_quiet()
    }

    pub fn elapsed(&self) -> Duration {
        self.now - START
    }

    pub fn faulty(&self) -> bool {
        self.now < self.faults_end
    }

    fn run_until(&mut self, end: Duration) -> Result<(), Violation> {
        while let Some(((at, _), _)) = self.queue.first_key_value().map(|(key, value)| (*key, value)) {
            if at >= end {
                break;
            }
            let Some((_, delivery)) = self.queue.pop_first() else { break };
            self.now = self.now.max(at);
            self.report.steps += 1;
            self.deliver(delivery)?;
            self.publish();
            self.wake_cores();
            self.check_runs()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Puts something into the future.
    pub fn at(&mut self, delay: Duration, delivery: Delivery) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), delivery);
    }

    /// Sends over a channel that keeps the order.
    pub fn send(&mut self, channel: String, delivery: Delivery) {
        let arrival = self.now + self.latency();
        let last = self.channels.entry(channel).or_insert(arrival);
        *last = arrival.max(*last);
        let delay = *last - self.now;
        self.at(delay, delivery);
    }

    pub fn latency(&mut self) -> Duration {
        let most = u64::try_from(self.settings.latency.as_micros()).unwrap_or(u64::MAX);
        // Now and then a message is slow.
        let factor = if self.faulty() && self.rng.random_bool(0.02) { 50 } else { 1 };
        Duration::from_micros(self.rng.random_range(100..most) * factor)
    }

    /// A random time around `mean`.
    pub fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(self.rng.random_range(0.05..2.0))
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.trace.len() >= TRACE {
            self.trace.pop_front();
        }
        let line = format!("{:>10.3} {}", self.elapsed().as_secs_f64(), text());
        self.trace.push_back(line);
    }

    pub fn connection(&mut self) -> ConnectionId {
        self.next_connection += 1;
        ConnectionId(self.next_connection)
    }

    fn deliver(&mut self, delivery: Delivery) -> Result<(), Violation> {
        match delivery {
            Delivery::MasterTick => self.master_event(km_mesos_core::master::Event::Tick),
            Delivery::AgentTick(agent) => self.agent_event(agent, km_mesos_core::agent::Event::Tick),
            Delivery::SchedulerTick => self.scheduler_event(Event::Tick)?,
            Delivery::Subscribe { life, connection } => self.subscribe_arrives(life, connection),
            Delivery::Call { life, stream, call, batch } => self.call_arrives(life, stream, *call, batch),
            Delivery::AcceptResult { life, batch, outcome } if life == self.scheduler.life => {
                self.scheduler_event(Event::AcceptResult { batch, outcome })?;
            }
            Delivery::ToScheduler { connection, event } => self.scheduler_hears(connection, *event)?,
            Delivery::SchedulerClosed { connection } => self.scheduler_loses(connection)?,
            Delivery::Link { agent, life, link, connection, register } => {
                self.link_opens(agent, life, link, connection, *register);
            }
            Delivery::ToMaster { agent, connection, message } => self.master_hears(agent, connection, *message),
            Delivery::ToAgent { agent, connection, message } => self.agent_hears(agent, connection, *message),
            Delivery::LinkClosed { agent, life, link } => self.link_closes(agent, life, link),
            Delivery::MasterSawEnd { connection } => {
                self.master_event(km_mesos_core::master::Event::Disconnected { connection });
            }
            Delivery::Started { agent, container } => self.executor_starts(agent, &container),
            Delivery::ExecutorSubscribes { agent, container } => self.executor_subscribes(agent, &container),
            Delivery::ToExecutor { agent, container, connection, event } => {
                self.executor_hears(agent, &container, connection, *event);
            }
            Delivery::ExecutorCall { agent, container, call } => self.executor_call_arrives(agent, &container, *call),
            Delivery::ExecutorStreamClosed { agent, container, connection } => {
                self.executor_stream_closes(agent, &container, connection);
            }
            Delivery::Progress { agent, container, task } => self.progress(agent, &container, &task),
            Delivery::Scan => self.scan(),
            Delivery::Watch { epoch, event } => self.watch_delivers(epoch, *event)?,
            Delivery::Relist { epoch } => self.relist(epoch)?,
            Delivery::Operation { life, action } => self.operation_arrives(life, *action)?,
            Delivery::Reply { life, op, reply } if life == self.scheduler.life => {
                self.scheduler_event(Event::Api { op, reply: *reply })?;
            }
            Delivery::SchedulerStarts => self.scheduler_starts()?,
            Delivery::MasterStarts => self.master_starts(),
            Delivery::AgentStarts(agent) => self.agent_starts(agent),
            Delivery::ApiUp => self.api.down = false,
            Delivery::Work => {
                if self.faulty() {
                    self.work();
                    let pause = self.around(self.settings.work_pause);
                    self.at(pause, Delivery::Work);
                }
            }
            Delivery::Fault(fault) => {
                self.strike(fault);
                self.plan_fault();
            }
            Delivery::Agents { life } => self.agents_polled(life)?,
            Delivery::AcceptResult { .. } | Delivery::Reply { .. } => {}
        }
        Ok(())
    }

    /// Sets the timers of the cores. A timer too many is harmless.
    fn wake_cores(&mut self) {
        let master = self.master.as_ref().and_then(Master::next_deadline);
        let scheduler = self.scheduler.core.as_ref().and_then(|core| core.next_wakeup(self.now));
        let agents: Vec<Option<Duration>> =
            self.agents.iter().map(|host| host.core.as_ref().and_then(Agent::next_deadline)).collect();
        self.wake("master", master, || Delivery::MasterTick);
        self.wake("scheduler", scheduler, || Delivery::SchedulerTick);
        for (number, deadline) in agents.into_iter().enumerate() {
            self.wake(&format!("agent{number}"), deadline, || Delivery::AgentTick(number));
        }
    }

    fn wake(&mut self, who: &str, deadline: Option<Duration>, tick: impl FnOnce() -> Delivery) {
        let Some(deadline) = deadline else { return };
        let at = deadline.max(self.now + Duration::from_millis(1));
        let planned = self.channels.get(who).copied().unwrap_or_default();
        if planned <= self.now || at < planned {
            self.channels.insert(who.to_owned(), at);
            self.at(at - self.now, tick());
        }
    }
}
