//! The agent's side of the link to its master: connect, register, notice silence, try again.

use std::time::Duration;

use km_mesos_proto::v1;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Action, Agent, Phase, framework::record, paths, timers::Timer};
use crate::link::{AgentMessage, MasterMessage, codec};

/// How long a master may take to answer a registration.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest back-off between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// The shortest, so that a master that refuses connections is not hammered.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct MasterLink {
    /// Names the newest link; what comes on others is stale.
    number: u64,
    state: LinkState,
    /// Attempts since the last registration.
    attempts: u32,
    /// Ends of executors that the registration under way still lists.
    exits: Vec<AgentMessage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkState {
    #[default]
    Closed,
    Registering,
    Registered {
        ping_timeout: Duration,
    },
}

impl MasterLink {
    pub fn is_registered(&self) -> bool {
        matches!(self.state, LinkState::Registered { .. })
    }
}

/// The checkpoint of the agent itself.
#[derive(Serialize, Deserialize)]
pub(super) struct AgentRecord {
    #[serde(with = "codec::proto")]
    pub info: v1::AgentInfo,
}

/// The checkpoint of what reservations and volumes made of the agent's resources.
#[derive(Serialize, Deserialize)]
pub(super) struct ResourcesRecord {
    #[serde(with = "codec::protos")]
    pub resources: Vec<v1::Resource>,
}

impl Agent {
    pub(super) fn connect(&mut self) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        self.link.number += 1;
        self.link.state = LinkState::Registering;
        self.link.exits.clear();
        self.timers.set(Timer::Link, self.now + REGISTRATION_TIMEOUT);
        let register = Box::new(self.registration());
        self.act(Action::Connect { link: self.link.number, register });
    }

    /// All that the master must know of the agent.
    fn registration(&self) -> AgentMessage {
        let mut executors = Vec::new();
        let mut tasks = Vec::new();
        for (framework_id, framework) in &self.frameworks {
            let custom =
                framework.executors.values().filter(|executor| executor.kind != super::executor::Kind::Command);
            executors.extend(custom.map(|executor| (framework.id(), executor.info.clone())));
            let own = framework.tasks.values().filter(|task| !task.foreign);
            tasks.extend(own.map(|task| task.to_proto(framework_id)));
        }
        AgentMessage::Register {
            info: self.info.clone(),
            resources: self.resources.clone(),
            version: self.config.version.clone(),
            frameworks: self.frameworks.values().map(|framework| framework.info.clone()).collect(),
            executors,
            tasks,
            operations: self.ended_operations(),
        }
    }

    pub(super) fn send(&mut self, message: AgentMessage) {
        if self.link.is_registered() {
            self.act(Action::Send(Box::new(message)));
        } else if matches!(message, AgentMessage::ExecutorExited { .. }) {
            self.link.exits.push(message);
        }
    }

    pub(super) fn link_closed(&mut self, link: u64, reason: &str) {
        if link != self.link.number || self.link.state == LinkState::Closed {
            return;
        }
        self.link.state = LinkState::Closed;
        let backoff = self.backoff();
        tracing::info!(reason, retry_in = ?backoff, "not connected to the master");
        self.timers.set(Timer::Link, self.now + backoff);
    }

    fn backoff(&mut self) -> Duration {
        let limit = self.config.registration_backoff_factor.saturating_mul(1 << self.link.attempts.min(10));
        self.link.attempts += 1;
        let limit = limit.clamp(SHORTEST_BACKOFF, LONGEST_BACKOFF);
        Duration::from_micros(self.rng.random_range(0..=limit.as_micros() as u64)).max(SHORTEST_BACKOFF)
    }

    /// The back-off is over, or the master was silent for too long.
    pub(super) fn link_timer(&mut self) {
        if self.link.state != LinkState::Closed {
            self.act(Action::Disconnect);
            self.link_closed(self.link.number, "the master is silent");
        } else {
            self.connect();
        }
    }

    pub(super) fn master_said(&mut self, link: u64, message: MasterMessage) {
        if link != self.link.number || self.link.state == LinkState::Closed {
            return;
        }
        if let MasterMessage::Registered { agent_id, ping_timeout_ms } = message {
            self.registered(agent_id, Duration::from_millis(ping_timeout_ms));
            return;
        }
        if let MasterMessage::Refused { message } = message {
            tracing::error!(message, "the master refuses this agent");
            self.leave(false);
            return;
        }
        // Orders before the registration would be for another agent's id.
        let LinkState::Registered { ping_timeout } = self.link.state else { return };
        self.timers.set(Timer::Link, self.now + ping_timeout);
        match message {
            MasterMessage::Registered { .. } | MasterMessage::Refused { .. } => {}
            MasterMessage::Ping => self.send(AgentMessage::Pong),
            MasterMessage::RunTasks { framework, tasks } => self.run_tasks(framework, tasks),
            MasterMessage::RunTaskGroup { framework, executor, group } => self.run_group(framework, executor, group),
            MasterMessage::KillTask { framework_id, task_id, kill_policy } => {
                self.kill_task(&framework_id.value, &task_id.value, kill_policy);
            }
            MasterMessage::ShutdownExecutor { framework_id, executor_id } => {
                self.shutdown_executor(&framework_id.value, &executor_id.value);
            }
            MasterMessage::ShutdownFramework { framework_id } => self.shutdown_framework(&framework_id.value),
            MasterMessage::Acknowledge { framework_id, task_id, uuid } => {
                self.acknowledge(&framework_id.value, &task_id.value, &uuid);
            }
            MasterMessage::FrameworkMessage { framework_id, executor_id, data } => {
                self.message_to_executor(&framework_id.value, &executor_id.value, data);
            }
            MasterMessage::UpdateFramework { framework } => self.update_framework(framework),
            MasterMessage::Drain { config } => self.drain(config),
            MasterMessage::CheckpointResources { resources } => self.checkpoint_resources(resources),
            MasterMessage::ApplyOperation { operation, resources } => self.apply_operation(operation, resources),
            MasterMessage::AcknowledgeOperation { operation_uuid, status_uuid } => {
                self.acknowledge_operation(&operation_uuid, &status_uuid);
            }
        }
    }

    fn registered(&mut self, agent_id: v1::AgentId, ping_timeout: Duration) {
        if self.info.id.as_ref().is_some_and(|own| *own != agent_id) {
            // What runs here runs under the old id, and the master can't know it under the new one.
            tracing::error!(new = agent_id.value, "the master gave this agent another id");
            self.leave(false);
            return;
        }
        if self.info.id.is_none() {
            tracing::info!(agent_id = agent_id.value, "registered");
            self.info.id = Some(agent_id);
            self.save_agent();
        }
        self.link.state = LinkState::Registered { ping_timeout };
        self.link.attempts = 0;
        self.timers.set(Timer::Link, self.now + ping_timeout);
        for exit in std::mem::take(&mut self.link.exits) {
            self.send(exit);
        }
        self.forward_everything();
    }

    pub(super) fn save_agent(&mut self) {
        let content = record(&AgentRecord { info: self.info.clone() });
        self.act(Action::Write { path: paths::AGENT.to_owned(), content });
    }

    fn update_framework(&mut self, info: v1::FrameworkInfo) {
        let known = info.id.as_ref().is_some_and(|id| self.frameworks.contains_key(&id.value));
        if known {
            self.learn_framework(info);
        }
    }

    pub(super) fn checkpoint_resources(&mut self, resources: Vec<v1::Resource>) {
        let before = std::mem::replace(&mut self.resources, resources.clone());
        self.change_volumes(&before, &resources);
        let content = record(&ResourcesRecord { resources });
        self.act(Action::Write { path: paths::RESOURCES.to_owned(), content });
    }
}
