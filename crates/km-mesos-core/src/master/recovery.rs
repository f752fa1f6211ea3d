//! The registry: what a new master starts from, and what it writes down.

use super::{Master, Registry, event::Timer};
use crate::allocator::quota::Quota;

impl Master {
    /// Takes over what an earlier master left.
    pub(super) fn recover(&mut self, registry: Registry) {
        for agent in registry.agents {
            let Some(id) = agent.info.id.as_ref().map(|id| id.value.clone()) else { continue };
            self.recovered.insert(id.clone(), agent);
            self.arm(self.config.agent_reregister_timeout, Timer::AgentReturn(id));
        }
        for (info, since) in registry.unreachable {
            if let Some(id) = info.id.as_ref().map(|id| id.value.clone()) {
                self.unreachable.insert(id, (info, since));
            }
        }
        // Weights of the command line count for the first start only.
        let weights = if registry.weights.is_empty() { self.config.weights.clone() } else { registry.weights };
        for (role, weight) in weights {
            self.allocator.set_weight(&role, weight);
        }
        for config in &registry.quotas {
            self.allocator.set_quota(&config.role, Quota::from_config(config));
        }
    }

    /// What must survive a restart.
    pub fn registry(&self) -> Registry {
        let live = self.agents.values().map(Self::record_of);
        Registry {
            agents: live.chain(self.recovered.values().cloned()).collect(),
            unreachable: self.unreachable.values().cloned().collect(),
            gone: self.gone.iter().map(|(id, since)| (id.clone(), *since)).collect(),
            schedule: self.schedule.clone(),
            down_machines: self.down_machines.clone(),
            weights: self.allocator.weights().clone(),
            quotas: self.allocator.quotas().iter().map(|(role, quota)| quota.to_config(role)).collect(),
        }
    }
}
