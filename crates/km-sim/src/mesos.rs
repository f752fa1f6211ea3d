//! The Mesos master and the agents: their cores, and how they start and end.

mod links;
mod operator;

use std::time::Duration;

use km_mesos_core::{
    agent::{self, Agent, Recovered},
    link::AgentMessage,
    master::{self, Answer, ConnectionId, Master},
};
use km_mesos_proto::{resources::Resources, v1};
use rand::Rng;

use crate::{
    delivery::{Delivery, ToExecutor, Wire},
    queue::Sleeper,
    world::World,
};

impl World {
    pub(crate) fn master_starts(&mut self) {
        self.master_lives += 1;
        let info = v1::MasterInfo {
            id: format!("master{}", self.master_lives),
            ip: 0x0100_007f,
            port: 5050,
            ..v1::MasterInfo::default()
        };
        let mut config = master::Config::new(info);
        config.agent_ping_timeout = self.settings.ping;
        config.max_agent_ping_timeouts = 3;
        config.agent_reregister_timeout = self.settings.ping * 5;
        self.master = Some(Master::new(config, self.registry.clone(), self.now));
        self.stirred.push(Sleeper::Master);
        self.note(|| "master starts".to_owned());
    }

    /// All its connections end, as seen from the other sides.
    pub(crate) fn master_crashes(&mut self) {
        self.master = None;
        let mut open: Vec<u64> = self.connections.keys().copied().collect();
        open.sort_unstable();
        for connection in open {
            self.closed_by_master(ConnectionId(connection));
        }
    }

    /// Gives the master an event; its answer, if it gave one.
    pub(crate) fn master_event_answered(&mut self, event: master::Event) -> Option<Answer> {
        let (mut answer, mut persisted) = (None, false);
        let (kind, start) = (kind(&event), self.start_of_cost());
        let actions = self.master.as_mut()?.handle(self.now, event);
        self.count_cost(|measured| &mut measured.master, kind, start);
        self.stirred.push(Sleeper::Master);
        for action in actions {
            match action {
                master::Action::Answer(given) => answer = Some(given),
                master::Action::ToScheduler { connection, event } => {
                    self.send_from_master(connection, Wire::ToFramework(event));
                }
                master::Action::ToAgent { connection, message } => {
                    self.send_from_master(connection, Wire::ToAgent(message))
                }
                master::Action::Close(connection) => self.closed_by_master(connection),
                // Without faults no master reads what an earlier one left.
                master::Action::Persist(change) if self.settings.fault_pause.is_some() => {
                    self.registry.apply(change);
                    persisted = true;
                }
                master::Action::Persist(_) | master::Action::ToOperator { .. } => {}
            }
        }
        if persisted && self.master.as_ref().map(Master::registry).as_ref() != Some(&self.registry) {
            self.violate(|| "what the master wrote down is not what it knows".to_owned());
        }
        answer
    }

    pub(crate) fn master_event(&mut self, event: master::Event) {
        let _no_request = self.master_event_answered(event);
    }

    fn agent_config(&mut self, number: usize) -> agent::Config {
        let resources = format!(
            "cpus:{};mem:{};disk:10000;ports:[31000-31099]",
            self.settings.agent_milli_cpu / 1000,
            self.settings.agent_megabytes
        );
        let resources = Resources::parse(&resources, "*").unwrap_or_default();
        agent::Config {
            info: v1::AgentInfo {
                hostname: self.hosts[number].hostname.clone(),
                port: Some(5051),
                resources: resources.to_protos(),
                ..v1::AgentInfo::default()
            },
            version: "1.11.0".to_owned(),
            ip: ip_of(number),
            work_dir: "/work".to_owned(),
            executor_registration_timeout: Duration::from_secs(60),
            executor_reregistration_timeout: Duration::from_secs(2),
            executor_shutdown_grace_period: Duration::from_secs(5),
            recovery_timeout: Duration::from_secs(900),
            registration_backoff_factor: Duration::from_secs(1),
            seed: self.rng.random(),
        }
    }

    pub(crate) fn agent_starts(&mut self, number: usize) {
        if self.hosts[number].scrapped || self.hosts[number].core.is_some() {
            return;
        }
        let config = self.agent_config(number);
        let host = &mut self.hosts[number];
        let files: Vec<(String, Vec<u8>)> =
            host.files.iter().map(|(path, data)| (path.clone(), data.clone())).collect();
        let recovered = match Recovered::read(&files) {
            Ok(recovered) => recovered,
            Err(error) => {
                self.violate(|| format!("agent {number} can't read its own checkpoint: {error}"));
                return;
            }
        };
        let alive = |container: &String| host.executors.contains_key(container) || host.processes.contains(container);
        let gone: Vec<String> = recovered.containers().into_iter().filter(|container| !alive(container)).collect();
        host.core = Some(Agent::new(config, recovered));
        self.note(|| format!("agent {number} starts"));
        for container in gone {
            self.agent_event(number, agent::Event::Exited { container, status: None });
        }
        self.agent_event(number, agent::Event::Start);
        let containers: Vec<String> = self.hosts[number].executors.keys().cloned().collect();
        for container in containers {
            let delay = self.latency();
            self.at(delay, Delivery::Executor(number, container, ToExecutor::Subscribe));
        }
    }

    /// The agent's process ends; what runs in containers goes on, and looks for the agent to come back.
    pub(crate) fn agent_crashes(&mut self, number: usize) {
        self.hosts[number].core = None;
        self.hosts[number].registered_at = None;
        if let Some((_, connection)) = self.hosts[number].link.take() {
            self.closed_by_peer(connection);
        }
        for executor in self.hosts[number].executors.values_mut() {
            executor.connection = None;
        }
    }

    /// The machine is set up anew: nothing of the old agent is left, and the new one gets an id of its own.
    pub(crate) fn agent_is_replaced(&mut self, number: usize) {
        let id = self.agent_id(number);
        self.agent_crashes(number);
        self.executors_crash(number);
        self.hosts[number].processes.clear();
        self.hosts[number].files.clear();
        // The operator says what the master can't know.
        if let Some(id) = id {
            let pause = self.around(Duration::from_secs(30));
            self.at(pause, Delivery::MarkGone(id));
        }
    }

    pub(crate) fn agent_id(&self, number: usize) -> Option<String> {
        self.hosts[number].core.as_ref()?.info().id.as_ref().map(|id| id.value.clone())
    }

    pub(crate) fn agent_event(&mut self, number: usize, event: agent::Event) {
        let now = self.now;
        let Some(core) = self.hosts[number].core.as_mut() else { return };
        let actions = core.handle(now, event);
        self.stirred.push(Sleeper::Agent(number));
        for action in actions {
            self.agent_acts(number, action);
        }
    }

    fn agent_acts(&mut self, number: usize, action: agent::Action) {
        match action {
            agent::Action::Connect { link, register } => self.agent_connects(number, link, register),
            agent::Action::Disconnect => {
                if let Some((_, connection)) = self.hosts[number].link.take() {
                    self.closed_by_peer(connection);
                }
            }
            agent::Action::Send(message) => {
                if let Some((_, connection)) = self.hosts[number].link {
                    self.send_to_master(connection, Wire::ToMaster(message));
                }
            }
            agent::Action::SendEvent { connection, event } => self.send_to_executor(connection, event),
            agent::Action::CloseStream { connection } => self.close_executor_stream(connection),
            agent::Action::Launch(launch) => self.launch_container(number, *launch),
            agent::Action::Signal { container } | agent::Action::Destroy { container } => {
                self.container_is_killed(number, &container);
            }
            agent::Action::Write { path, content } => {
                self.hosts[number].files.insert(path, content);
            }
            agent::Action::Remove { path } => {
                let below = format!("{path}/");
                let keeps = |name: &String| !path.is_empty() && *name != path && !name.starts_with(&below);
                self.hosts[number].files.retain(|name, _| keeps(name));
            }
            // No framework of a simulation has persistent volumes.
            agent::Action::MakeVolume { .. }
            | agent::Action::ClearVolume { .. }
            | agent::Action::LinkVolume(_)
            | agent::Action::UnlinkVolume { .. } => {}
            agent::Action::End { reason } => {
                self.note(|| format!("agent {number} ends: {reason}"));
                self.agent_crashes(number);
                self.at(Duration::from_secs(1), Delivery::AgentStarts(number));
            }
        }
    }

    /// Containers that hold no executor of ours: the tasks of rivals.
    pub(crate) fn process_starts(&mut self, number: usize, container: &str) {
        if self.hosts[number].processes.contains(container) {
            self.agent_event(number, agent::Event::Launched { container: container.to_owned(), pid: 1 });
        }
    }

    pub(crate) fn process_ends(&mut self, number: usize, container: &str, status: i32) {
        if self.hosts[number].processes.remove(container) {
            let container = container.to_owned();
            self.agent_event(number, agent::Event::Exited { container, status: Some(status) });
        }
    }

    fn launch_container(&mut self, number: usize, launch: agent::Launch) {
        if launch.executor_id.starts_with("rival") {
            let container = launch.container;
            self.hosts[number].processes.insert(container.clone());
            let (start, life) = (self.around(Duration::from_millis(200)), self.around(Duration::from_secs(20)));
            self.at(start, Delivery::ProcessStarts(number, container.clone()));
            self.at(start + life, Delivery::ProcessEnds(number, container, 0));
        } else {
            self.launch_executor(number, launch);
        }
    }

    fn container_is_killed(&mut self, number: usize, container: &str) {
        self.process_ends(number, container, 9);
        self.executor_ends(number, container);
    }
}

fn kind(event: &master::Event) -> &'static str {
    match event {
        master::Event::Tick => "tick",
        master::Event::Subscribe { .. } => "subscribe",
        master::Event::SchedulerCall { .. } => "scheduler's call",
        master::Event::OperatorCall { .. } => "operator's call",
        master::Event::OperatorSubscribe { .. } => "operator's subscribe",
        master::Event::Agent { message, .. } if matches!(**message, AgentMessage::Register { .. }) => "registration",
        master::Event::Agent { .. } => "agent's message",
        master::Event::Disconnected { .. } => "disconnected",
    }
}

pub(crate) fn ip_of(number: usize) -> String {
    format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255)
}
