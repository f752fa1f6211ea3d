//! The Mesos master and the agents: their cores and the links between them.

use std::time::Duration;

use km_mesos_core::{
    agent::{self, Agent, Recovered},
    link::{AgentMessage, MasterMessage},
    master::{self, Answer, Body, ConnectionId, Master},
};
use km_mesos_proto::{resources::Resources, v1};
use rand::Rng;

use crate::world::{Delivery, World};

/// After this time of silence a master gives an agent up; short, so that it happens in a run.
const PING: Duration = Duration::from_secs(3);

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
        config.agent_ping_timeout = PING;
        config.max_agent_ping_timeouts = 3;
        config.agent_reregister_timeout = Duration::from_secs(15);
        self.master = Some(Master::new(config, self.registry.clone(), self.now));
        self.note(|| "master starts".to_owned());
    }

    /// All its connections end, as seen from the other sides.
    pub(crate) fn master_crashes(&mut self) {
        self.master = None;
        if let Some(connection) = self.scheduler.connection {
            self.send(format!("stream{}", connection.0), Delivery::SchedulerClosed { connection });
        }
        for agent in 0..self.agents.len() {
            if let Some((link, connection)) = self.agents[agent].link {
                let life = self.agents[agent].life;
                self.send(format!("down{}", connection.0), Delivery::LinkClosed { agent, life, link });
            }
        }
    }

    /// Gives the master an event; its answer, if it gave one.
    pub(crate) fn master_event_answered(&mut self, event: master::Event) -> Option<Answer> {
        let now = self.now;
        let mut answer = None;
        let actions = self.master.as_mut()?.handle(now, event);
        for action in actions {
            match action {
                master::Action::Answer(given) => answer = Some(given),
                master::Action::ToScheduler { connection, event } => {
                    self.send(format!("stream{}", connection.0), Delivery::ToScheduler { connection, event });
                }
                master::Action::ToAgent { connection, message } => {
                    if let Some(agent) = self.agent_of(connection) {
                        let channel = format!("down{}", connection.0);
                        self.send(channel, Delivery::ToAgent { agent, connection, message });
                    }
                }
                master::Action::Close(connection) => self.master_closes(connection),
                master::Action::Persist => {
                    if let Some(master) = &self.master {
                        self.registry = master.registry();
                    }
                }
                master::Action::ToOperator { .. } => {}
            }
        }
        answer
    }

    pub(crate) fn master_event(&mut self, event: master::Event) {
        let _no_request = self.master_event_answered(event);
    }

    fn master_closes(&mut self, connection: ConnectionId) {
        match self.agent_of(connection) {
            Some(agent) => {
                let life = self.agents[agent].life;
                if let Some((link, _)) = self.agents[agent].link {
                    self.send(format!("down{}", connection.0), Delivery::LinkClosed { agent, life, link });
                }
            }
            None => self.send(format!("stream{}", connection.0), Delivery::SchedulerClosed { connection }),
        }
    }

    fn agent_of(&self, connection: ConnectionId) -> Option<usize> {
        self.agents.iter().position(|host| host.link.is_some_and(|(_, known)| known == connection))
    }

    /// The operator API's list of agents.
    pub(crate) fn list_agents(&mut self) -> Option<Vec<v1::master::response::get_agents::Agent>> {
        let call = v1::master::Call { r#type: Some(v1::master::call::Type::GetAgents as i32), ..Default::default() };
        let event = master::Event::OperatorCall { principal: None, call: Box::new(call) };
        match self.master_event_answered(event)?.body {
            Body::Response(response) => response.get_agents.map(|agents| agents.agents),
            _ => None,
        }
    }

    pub(crate) fn agent_starts(&mut self, number: usize) {
        let resources = format!(
            "cpus:{};mem:{};disk:10000;ports:[31000-31099]",
            self.settings.agent_milli_cpu / 1000,
            self.settings.agent_megabytes
        );
        let Ok(resources) = Resources::parse(&resources, "*") else { return };
        let seed = self.rng.random();
        let host = &mut self.agents[number];
        host.life += 1;
        host.link = None;
        let config = agent::Config {
            info: v1::AgentInfo {
                hostname: host.hostname.clone(),
                port: Some(5051),
                resources: resources.to_protos(),
                ..v1::AgentInfo::default()
            },
            version: "1.11.0".to_owned(),
            ip: "127.0.0.1".to_owned(),
            work_dir: "/work".to_owned(),
            executor_registration_timeout: Duration::from_secs(60),
            executor_reregistration_timeout: Duration::from_secs(2),
            executor_shutdown_grace_period: Duration::from_secs(5),
            recovery_timeout: Duration::from_secs(900),
            registration_backoff_factor: Duration::from_secs(1),
            seed,
        };
        let files: Vec<(String, Vec<u8>)> =
            host.files.iter().map(|(path, data)| (path.clone(), data.clone())).collect();
        let recovered = match Recovered::read(&files) {
            Ok(recovered) => recovered,
            Err(error) => {
                self.note(|| format!("agent {number} can't read its checkpoint: {error}"));
                return;
            }
        };
        let gone: Vec<String> =
            recovered.containers().into_iter().filter(|container| !host.executors.contains_key(container)).collect();
        host.core = Some(Agent::new(config, recovered));
        self.note(|| format!("agent {number} starts"));
        for container in gone {
            self.agent_event(number, agent::Event::Exited { container, status: None });
        }
        self.agent_event(number, agent::Event::Start);
        let containers: Vec<String> = self.agents[number].executors.keys().cloned().collect();
        for container in containers {
            let delay = self.latency();
            self.at(delay, Delivery::ExecutorSubscribes { agent: number, container });
        }
    }

    /// The agent's process ends; what runs in containers goes on, and looks for the agent to come back.
    pub(crate) fn agent_crashes(&mut self, number: usize) {
        self.agents[number].core = None;
        if let Some((_, connection)) = self.agents[number].link.take() {
            self.send(format!("up{}", connection.0), Delivery::MasterSawEnd { connection });
        }
        for executor in self.agents[number].executors.values_mut() {
            executor.connection = None;
        }
    }

    /// Both sides find out, each in its own time.
    pub(crate) fn break_link(&mut self, number: usize) {
        let life = self.agents[number].life;
        if let Some((link, connection)) = self.agents[number].link {
            self.send(format!("up{}", connection.0), Delivery::MasterSawEnd { connection });
            self.send(format!("down{}", connection.0), Delivery::LinkClosed { agent: number, life, link });
        }
    }

    pub(crate) fn agent_event(&mut self, number: usize, event: agent::Event) {
        let now = self.now;
        let Some(core) = self.agents[number].core.as_mut() else { return };
        for action in core.handle(now, event) {
            self.agent_acts(number, action);
        }
    }

    fn agent_acts(&mut self, number: usize, action: agent::Action) {
        match action {
            agent::Action::Connect { link, register } => {
                let connection = self.connection();
                if let Some((_, old)) = self.agents[number].link.replace((link, connection)) {
                    self.send(format!("up{}", old.0), Delivery::MasterSawEnd { connection: old });
                }
                let life = self.agents[number].life;
                let opens = Delivery::Link { agent: number, life, link, connection, register };
                self.send(format!("up{}", connection.0), opens);
            }
            agent::Action::Disconnect => {
                if let Some((_, connection)) = self.agents[number].link.take() {
                    self.send(format!("up{}", connection.0), Delivery::MasterSawEnd { connection });
                }
            }
            agent::Action::Send(message) => {
                if let Some((_, connection)) = self.agents[number].link {
                    let channel = format!("up{}", connection.0);
                    self.send(channel, Delivery::ToMaster { agent: number, connection, message });
                }
            }
            agent::Action::SendEvent { connection, event } => self.send_to_executor(number, connection, event),
            agent::Action::CloseStream { connection } => self.close_executor_stream(number, connection),
            agent::Action::Launch(launch) => self.launch_executor(number, *launch),
            agent::Action::Signal { container } | agent::Action::Destroy { container } => {
                self.executor_ends(number, &container);
            }
            agent::Action::Write { path, content } => {
                self.agents[number].files.insert(path, content);
            }
            agent::Action::Remove { path } => {
                let below = format!("{path}/");
                let keeps = |name: &String| !path.is_empty() && *name != path && !name.starts_with(&below);
                self.agents[number].files.retain(|name, _| keeps(name));
            }
            agent::Action::End { reason } => {
                self.note(|| format!("agent {number} ends: {reason}"));
                self.agents[number].core = None;
                self.agents[number].link = None;
                self.at(Duration::from_secs(1), Delivery::AgentStarts(number));
            }
        }
    }

    pub(crate) fn link_opens(
        &mut self,
        agent: usize,
        life: u64,
        link: u64,
        connection: ConnectionId,
        register: AgentMessage,
    ) {
        if self.master.is_none() || self.agents[agent].cut_off_until > self.now {
            self.send(format!("down{}", connection.0), Delivery::LinkClosed { agent, life, link });
            return;
        }
        self.master_event(from_agent(connection, register));
    }

    pub(crate) fn master_hears(&mut self, agent: usize, connection: ConnectionId, message: AgentMessage) {
        let current = self.master.as_ref().is_some_and(|master| master.is_agent_link(connection));
        if current {
            self.master_event(from_agent(connection, message));
        } else if let Some((link, known)) = self.agents[agent].link
            && known == connection
        {
            // Refused, as by HTTP status 403: the link is void.
            let life = self.agents[agent].life;
            self.send(format!("down{}", connection.0), Delivery::LinkClosed { agent, life, link });
        }
    }

    pub(crate) fn agent_hears(&mut self, agent: usize, connection: ConnectionId, message: MasterMessage) {
        if let Some((link, known)) = self.agents[agent].link
            && known == connection
        {
            self.agent_event(agent, agent::Event::Master { link, message });
        }
    }

    pub(crate) fn link_closes(&mut self, agent: usize, life: u64, link: u64) {
        let host = &mut self.agents[agent];
        if host.life != life || host.link.is_none_or(|(known, _)| known != link) {
            return;
        }
        host.link = None;
        self.agent_event(agent, agent::Event::LinkClosed { link, reason: "broken".to_owned() });
    }
}

fn from_agent(connection: ConnectionId, message: AgentMessage) -> master::Event {
    master::Event::Agent { connection, ip: "127.0.0.1".to_owned(), message: Box::new(message) }
}
