//! The Mesos master as a state machine: events and time in, actions out.
//!
//! It keeps every framework, agent, offer and task in memory. Only [`Registry`] survives a restart; frameworks and
//! tasks are rebuilt from what re-registering agents report, as in Apache Mesos.

mod accept;
mod agent;
mod agents;
mod calls;
mod config;
mod drain;
mod event;
mod feedback;
mod framework;
mod hosts;
mod inverse;
mod launch;
mod loss;
mod maintenance;
mod metric_names;
mod metrics;
mod offers;
mod operations;
mod operator;
mod operator_stream;
mod quota;
mod reconcile;
mod registry;
mod snapshot;
mod subscribe;
mod task;
mod update_framework;
mod updates;
mod v0;
pub mod validation;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use km_mesos_proto::v1::{self, scheduler};

use crate::{
    allocator::Allocator,
    link::{AgentMessage, MasterMessage},
};
use agent::Agent;
use event::Timer;
use framework::Framework;
use metrics::Counters;

pub use config::Config;
pub use event::{Action, Answer, Body, ConnectionId, Event};
pub use registry::{AgentRecord, ClusterRecord, RegisteredAgent, Registry, RegistryChange};
pub use task::terminal;
pub use v0::Page;

/// Who is at the other end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Peer {
    Scheduler(String),
    Agent(String),
    Operator,
}

/// The master. See the module's text.
#[derive(Debug)]
pub struct Master {
    config: Config,
    started: Duration,
    /// The time of the event being handled, since the epoch. Never goes back.
    now: Duration,
    frameworks: BTreeMap<String, Framework>,
    /// Removed frameworks, the newest last.
    completed: VecDeque<Framework>,
    agents: BTreeMap<String, Agent>,
    /// The same by host name.
    hosts: hosts::Hosts,
    /// All agents that are draining, and perhaps some that were.
    draining: BTreeSet<String>,
    /// Agents of the registry that did not come back yet after the master's start.
    recovered: BTreeMap<String, RegisteredAgent>,
    unreachable: BTreeMap<String, (v1::AgentInfo, Duration)>,
    /// What a drained or deactivated agent was when it became unreachable.
    unreachable_drains: BTreeMap<String, RegisteredAgent>,
    gone: BTreeMap<String, Duration>,
    offers: BTreeMap<String, v1::Offer>,
    inverse_offers: BTreeMap<String, v1::InverseOffer>,
    inverse_answers: BTreeMap<(String, String), inverse::InverseAnswer>,
    schedule: v1::maintenance::Schedule,
    down_machines: Vec<v1::MachineId>,
    allocator: Allocator,
    peers: BTreeMap<ConnectionId, Peer>,
    /// Streams of operators, the oldest first.
    operators: VecDeque<ConnectionId>,
    timers: BTreeSet<(Duration, Timer)>,
    next_framework: u64,
    next_agent: u64,
    next_offer: u64,
    next_operation: u64,
    counters: Counters,
    out: Vec<Action>,
}

impl Master {
    /// A master that starts at `now` (since the epoch) with what an earlier one left in the registry.
    pub fn new(config: Config, registry: Registry, now: Duration) -> Self {
        let allocator = Allocator::new(config.allocation_interval, config.min_allocatable.clone());
        let mut master = Self {
            started: now,
            now,
            frameworks: BTreeMap::new(),
            completed: VecDeque::new(),
            agents: BTreeMap::new(),
            hosts: hosts::Hosts::default(),
            draining: BTreeSet::new(),
            recovered: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            unreachable_drains: BTreeMap::new(),
            gone: BTreeMap::new(),
            offers: BTreeMap::new(),
            inverse_offers: BTreeMap::new(),
            inverse_answers: BTreeMap::new(),
            schedule: v1::maintenance::Schedule::default(),
            down_machines: Vec::new(),
            allocator,
            peers: BTreeMap::new(),
            operators: VecDeque::new(),
            timers: BTreeSet::new(),
            next_framework: 0,
            next_agent: 0,
            next_offer: 0,
            next_operation: 0,
            counters: Counters::default(),
            out: Vec::new(),
            config,
        };
        master.recover(registry);
        master.timers.insert((now + master.config.allocation_interval, Timer::Batch));
        master.timers.insert((now + master.config.registry_gc_interval, Timer::RegistryGc));
        master
    }

    /// Handles one event. `now` is the time since the epoch; it must not go back between events.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        self.now = self.now.max(now);
        match event {
            Event::Tick => self.tick(),
            Event::Subscribe { connection, stream_id, principal, subscribe } => {
                self.subscribe(connection, stream_id, principal, *subscribe);
            }
            Event::SchedulerCall { stream_id, principal, call } => {
                let answer = self.scheduler_call(stream_id.as_deref(), principal.as_deref(), *call);
                self.out.push(Action::Answer(answer));
            }
            Event::OperatorCall { principal, call } => {
                let answer = self.operator_call(principal.as_deref(), *call);
                self.out.push(Action::Answer(answer));
            }
            Event::OperatorSubscribe { connection } => self.operator_subscribe(connection),
            Event::Agent { connection, ip, message } => self.agent_message(connection, ip, *message),
            Event::Disconnected { connection } => self.disconnected(connection),
        }
        self.allocate_candidates();
        self.check_indexes();
        std::mem::take(&mut self.out)
    }

    /// When [`Event::Tick`] is due next, since the epoch.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Whether the connection is the current one of an agent: others are fenced off with 403.
    pub fn is_agent_link(&self, connection: ConnectionId) -> bool {
        matches!(self.peers.get(&connection), Some(Peer::Agent(_)))
    }

    /// The master's settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn tick(&mut self) {
        while let Some((due, timer)) = self.timers.first().cloned()
            && due <= self.now
        {
            self.timers.pop_first();
            self.fire(timer);
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Batch => {
                self.arm(self.config.allocation_interval, Timer::Batch);
                self.allocate_all();
            }
            Timer::Heartbeat(connection) => self.heartbeat(connection),
            Timer::Failover(framework, disconnection) => self.failover_timeout(&framework, disconnection),
            Timer::Ping(agent) => self.ping(&agent),
            Timer::AgentReturn(agent) => self.recovered_agent_lost(&agent),
            Timer::OfferTimeout(offer) => self.offer_timeout(&offer),
            Timer::RegistryGc => {
                self.arm(self.config.registry_gc_interval, Timer::RegistryGc);
                self.forget_long_lost();
            }
        }
    }

    fn arm(&mut self, delay: Duration, timer: Timer) {
        self.timers.insert((self.now + delay, timer));
    }

    fn heartbeat(&mut self, connection: ConnectionId) {
        match self.peers.get(&connection) {
            Some(Peer::Scheduler(_)) => {
                self.tell_stream(connection, scheduler::event::Type::Heartbeat, scheduler::Event::default());
            }
            Some(Peer::Operator) => {
                self.tell_operator(connection, v1::master::event::Type::Heartbeat, v1::master::Event::default());
            }
            Some(Peer::Agent(_)) | None => return,
        }
        self.arm(self.config.heartbeat_interval, Timer::Heartbeat(connection));
    }

    fn disconnected(&mut self, connection: ConnectionId) {
        match self.peers.remove(&connection) {
            Some(Peer::Scheduler(framework)) => self.framework_disconnected(&framework),
            Some(Peer::Agent(agent)) => self.agent_disconnected(&agent),
            Some(Peer::Operator) => self.operators.retain(|one| *one != connection),
            None => {}
        }
    }

    /// Sends to a scheduler's stream.
    fn tell_stream(&mut self, connection: ConnectionId, kind: scheduler::event::Type, mut event: scheduler::Event) {
        event.r#type = Some(kind as i32);
        self.out.push(Action::ToScheduler { connection, event: Box::new(event) });
    }

    /// Sends to a framework if its scheduler is connected. Says whether it was.
    fn tell_framework(&mut self, framework: &str, kind: scheduler::event::Type, event: scheduler::Event) -> bool {
        let stream = self.frameworks.get(framework).and_then(|framework| framework.stream.as_ref());
        let Some(connection) = stream.map(|(connection, _)| *connection) else { return false };
        self.tell_stream(connection, kind, event);
        true
    }

    /// Sends to an agent if it is connected. Says whether it was.
    fn tell_agent(&mut self, agent: &str, message: MasterMessage) -> bool {
        let Some(connection) = self.agents.get(agent).and_then(|agent| agent.connection) else { return false };
        self.out.push(Action::ToAgent { connection, message: Box::new(message) });
        true
    }

    fn close(&mut self, connection: ConnectionId) {
        self.peers.remove(&connection);
        self.out.push(Action::Close(connection));
    }

    fn agent_message(&mut self, connection: ConnectionId, ip: String, message: AgentMessage) {
        if let AgentMessage::Register { info, resources, version, frameworks, executors, tasks, operations } = message {
            let registration =
                agents::Registration { info, resources, version, ip, frameworks, executors, tasks, operations };
            self.register(connection, registration);
            return;
        }
        let Some(Peer::Agent(agent)) = self.peers.get(&connection).cloned() else { return };
        match message {
            AgentMessage::Register { .. } => {}
            AgentMessage::Update { framework_id, status, latest_state } => {
                self.agent_update(&agent, &framework_id.value, status, latest_state);
            }
            AgentMessage::OperationUpdate { operation } => self.agent_operation(&agent, operation),
            AgentMessage::FrameworkMessage { framework_id, executor_id, data } => {
                self.executor_message(&agent, &framework_id.value, executor_id, data);
            }
            AgentMessage::ExecutorExited { framework_id, executor_id, status } => {
                self.executor_exited(&agent, &framework_id.value, executor_id, status);
            }
            AgentMessage::Pong => {
                if let Some(agent) = self.agents.get_mut(&agent) {
                    agent.missed_pings = 0;
                }
            }
            AgentMessage::Unregister => self.agent_unregistered(&agent),
        }
    }
}
