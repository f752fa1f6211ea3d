//! The links between agents and their master.

use km_mesos_core::{
    agent,
    link::{AgentMessage, MasterMessage},
    master::{self, ConnectionId},
};

use super::ip_of;
use crate::{
    delivery::Wire,
    world::{Peer, World},
};

impl World {
    pub(super) fn agent_connects(&mut self, number: usize, link: u64, register: Box<AgentMessage>) {
        let connection = self.open(Peer::Agent(number));
        if let Some((_, old)) = self.hosts[number].link.replace((link, connection)) {
            self.closed_by_peer(old);
        }
        self.send_to_master(connection, Wire::Register(number, register));
    }

    pub(crate) fn link_opens(&mut self, agent: usize, connection: ConnectionId, register: AgentMessage) {
        if self.master.is_none() || self.hosts[agent].cut_off_until > self.now {
            self.closed_by_master(connection);
            return;
        }
        self.master_event(from_agent(agent, connection, register));
    }

    pub(crate) fn master_hears(&mut self, connection: ConnectionId, message: AgentMessage) {
        let Some(Peer::Agent(agent)) = self.peer(connection) else { return };
        if self.master.as_ref().is_some_and(|master| master.is_agent_link(connection)) {
            self.master_event(from_agent(agent, connection, message));
        } else {
            // Refused, as by HTTP status 403: the link is void.
            self.closed_by_master(connection);
        }
    }

    pub(crate) fn agent_hears(&mut self, agent: usize, connection: ConnectionId, message: MasterMessage) {
        if let Some((link, known)) = self.hosts[agent].link
            && known == connection
        {
            if matches!(message, MasterMessage::Registered { .. }) {
                self.hosts[agent].registered_at = Some(self.now);
            }
            self.agent_event(agent, agent::Event::Master { link, message });
        }
    }

    pub(crate) fn link_closes(&mut self, agent: usize, connection: ConnectionId) {
        let Some((link, known)) = self.hosts[agent].link else { return };
        if known == connection {
            self.hosts[agent].link = None;
            self.hosts[agent].registered_at = None;
            self.agent_event(agent, agent::Event::LinkClosed { link, reason: "broken".to_owned() });
        }
    }

    pub(crate) fn break_link(&mut self, agent: usize) {
        if let Some((_, connection)) = self.hosts[agent].link {
            self.break_connection(connection);
        }
    }
}

fn from_agent(agent: usize, connection: ConnectionId, message: AgentMessage) -> master::Event {
    master::Event::Agent { connection, ip: ip_of(agent), message: Box::new(message) }
}
