//! The registry: what survives a restart of the master, and how it changes.
//!
//! It is kept as a log: each change is the whole record of one agent, or all that is not about single agents. So what a
//! change costs doesn't grow with the number of agents, and to apply a change twice does no harm.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1;

use super::{Action, Master, event::Timer};
use crate::allocator::quota::Quota;

/// What survives a restart of the master, as Mesos' registry does: agents, maintenance, weights and quota, but
/// neither frameworks nor tasks nor offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    /// All agents of which something is known, by id.
    pub agents: BTreeMap<String, AgentRecord>,
    pub cluster: ClusterRecord,
}

/// What is known of one agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentRecord {
    /// It is there, or is expected back after the master's restart.
    pub admitted: Option<RegisteredAgent>,
    /// It is unreachable since then.
    pub unreachable: Option<(v1::AgentInfo, Duration)>,
    /// It is gone for ever since then.
    pub gone: Option<Duration>,
}

/// An agent that was admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredAgent {
    pub info: v1::AgentInfo,
    pub deactivated: bool,
    pub drain: Option<v1::DrainInfo>,
    pub drain_start: Option<Duration>,
}

/// What is not about single agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRecord {
    /// Machines under maintenance and those that are down.
    pub schedule: v1::maintenance::Schedule,
    pub down_machines: Vec<v1::MachineId>,
    pub weights: BTreeMap<String, f64>,
    pub quotas: Vec<v1::quota::QuotaConfig>,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum RegistryChange {
    /// The agent's record is this one now; an empty one means that nothing is known of it any more.
    Agent {
        id: String,
        record: Box<AgentRecord>,
    },
    Cluster(Box<ClusterRecord>),
}

impl Registry {
    /// Takes a change over.
    pub fn apply(&mut self, change: RegistryChange) {
        match change {
            RegistryChange::Agent { id, record } if *record == AgentRecord::default() => _ = self.agents.remove(&id),
            RegistryChange::Agent { id, record } => _ = self.agents.insert(id, *record),
            RegistryChange::Cluster(cluster) => self.cluster = *cluster,
        }
    }
}

impl Master {
    /// Takes over what an earlier master left.
    pub(super) fn recover(&mut self, registry: Registry) {
        for (id, record) in registry.agents {
            if let Some(agent) = record.admitted {
                self.recovered.insert(id.clone(), agent);
                self.arm(self.config.agent_reregister_timeout, Timer::AgentReturn(id.clone()));
            }
            if let Some(since) = record.gone {
                self.gone.insert(id.clone(), since);
            }
            if let Some(unreachable) = record.unreachable {
                self.unreachable.insert(id, unreachable);
            }
        }
        let cluster = registry.cluster;
        self.schedule = cluster.schedule;
        self.down_machines = cluster.down_machines;
        // Weights of the command line count for the first start only.
        let weights = if cluster.weights.is_empty() { self.config.weights.clone() } else { cluster.weights };
        for (role, weight) in weights {
            self.allocator.set_weight(&role, weight);
        }
        for config in &cluster.quotas {
            self.allocator.set_quota(&config.role, Quota::from_config(config));
        }
    }

    /// All that must survive a restart. Costs a walk over all agents; [`Action::Persist`] tells what changes.
    pub fn registry(&self) -> Registry {
        let ids =
            self.agents.keys().chain(self.recovered.keys()).chain(self.unreachable.keys()).chain(self.gone.keys());
        let agents = ids.map(|id| (id.clone(), self.agent_record(id))).collect();
        Registry { agents, cluster: self.cluster_record() }
    }

    fn agent_record(&self, id: &str) -> AgentRecord {
        AgentRecord {
            admitted: self.agents.get(id).map(Self::record_of).or_else(|| self.recovered.get(id).cloned()),
            unreachable: self.unreachable.get(id).cloned(),
            gone: self.gone.get(id).copied(),
        }
    }

    fn cluster_record(&self) -> ClusterRecord {
        ClusterRecord {
            schedule: self.schedule.clone(),
            down_machines: self.down_machines.clone(),
            weights: self.allocator.weights().clone(),
            quotas: self.allocator.quotas().iter().map(|(role, quota)| quota.to_config(role)).collect(),
        }
    }

    /// Writes down what is known of an agent now.
    pub(super) fn persist_agent(&mut self, id: &str) {
        let record = Box::new(self.agent_record(id));
        self.out.push(Action::Persist(RegistryChange::Agent { id: id.to_owned(), record }));
    }

    /// Writes down what is not about single agents.
    pub(super) fn persist_cluster(&mut self) {
        let record = Box::new(self.cluster_record());
        self.out.push(Action::Persist(RegistryChange::Cluster(record)));
    }
}
