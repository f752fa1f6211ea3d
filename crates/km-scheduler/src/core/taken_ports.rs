//! Host ports that Mesos offers although somebody else on the machine has them.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1;
use km_podtask::{Task, messages};

use super::Core;

/// Ports by agent, with the time until which they are not used.
#[derive(Default)]
pub(super) struct TakenPorts(BTreeMap<String, BTreeMap<u64, Duration>>);

impl TakenPorts {
    fn note(&mut self, agent: &str, port: u16, until: Duration) {
        self.0.entry(agent.to_owned()).or_default().insert(port.into(), until);
    }

    pub fn next_wakeup(&self) -> Option<Duration> {
        self.0.values().flat_map(BTreeMap::values).min().copied()
    }

    /// Forgets what is due, and names the agents that it was about.
    fn expire(&mut self, now: Duration) -> Vec<String> {
        let due = |ports: &BTreeMap<u64, Duration>| ports.values().any(|until| *until <= now);
        let agents = self.0.iter().filter(|(_, ports)| due(ports)).map(|(agent, _)| agent.clone()).collect();
        for ports in self.0.values_mut() {
            ports.retain(|_, until| *until > now);
        }
        self.0.retain(|_, ports| !ports.is_empty());
        agents
    }

    /// What is offered of an agent, without these ports.
    pub fn without(&self, agent: &str, mut offered: Vec<v1::Resource>) -> Vec<v1::Resource> {
        let Some(taken) = self.0.get(agent) else { return offered };
        for ranges in offered.iter_mut().filter(|one| one.name == "ports").filter_map(|one| one.ranges.as_mut()) {
            for port in taken.keys() {
                ranges.range = ranges.range.iter().flat_map(|range| km_podtask::without_port(*range, *port)).collect();
            }
        }
        offered
    }
}

impl Core {
    /// A task failed for a host port that somebody else has: its successor gets another one.
    pub(super) fn note_taken_port(&mut self, now: Duration, task: &Task, message: &str) {
        let Some(port) = messages::taken_host_port(message) else { return };
        tracing::warn!(agent = task.agent_id, host = task.hostname, port, "the host port is taken by somebody else");
        self.taken_ports.note(&task.agent_id, port, now + self.config.taken_port_pause);
        self.feed.node(&task.hostname);
    }

    /// Ports whose time is over are tried again.
    pub(super) fn retry_ports(&mut self, now: Duration) {
        if self.taken_ports.next_wakeup().is_none_or(|due| due > now) {
            return;
        }
        for agent in self.taken_ports.expire(now) {
            if let Some(host) = self.agents.get(&agent).map(|agent| agent.hostname.clone()) {
                self.feed.node(&host);
            }
        }
        self.queue.stir(now);
        self.demand.touch(now);
    }
}
