//! Agents by host name, so that those of a machine are found without a walk over all.

use std::collections::{BTreeMap, BTreeSet};

use super::Master;

/// Ids of agents by host name, in small letters: host names compare without case.
#[derive(Debug, Default)]
pub(super) struct Hosts(BTreeMap<String, BTreeSet<String>>);

impl Hosts {
    pub fn add(&mut self, hostname: &str, agent: &str) {
        self.0.entry(hostname.to_ascii_lowercase()).or_default().insert(agent.to_owned());
    }

    pub fn remove(&mut self, hostname: &str, agent: &str) {
        let hostname = hostname.to_ascii_lowercase();
        let Some(agents) = self.0.get_mut(&hostname) else { return };
        agents.remove(agent);
        if agents.is_empty() {
            self.0.remove(&hostname);
        }
    }

    /// The agents of a host, ordered by id.
    pub fn on(&self, hostname: &str) -> impl Iterator<Item = &String> {
        self.0.get(&hostname.to_ascii_lowercase()).into_iter().flatten()
    }
}

impl Master {
    /// Panics in debug builds unless what is kept to find agents fast says the same as looking through all.
    pub(super) fn check_indexes(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut hosts = Hosts::default();
        self.agents.values().for_each(|agent| hosts.add(&agent.info.hostname, &agent.id));
        assert_eq!(self.hosts.0, hosts.0, "agents by host name");
        let mut draining = self.agents.values().filter(|agent| agent.draining());
        assert!(draining.all(|agent| self.draining.contains(&agent.id)), "agents that are draining");
    }
}
