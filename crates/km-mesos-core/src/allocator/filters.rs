//! Refusals: what a framework declined on an agent is not offered to it again for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_mesos_proto::resources::Resources;

#[derive(Clone, Debug)]
struct Refusal {
    refused: Resources,
    expires: Duration,
    /// How many batches had been allocated when it began: it holds over the next, however late that comes.
    batch: u64,
}

/// One framework's refusals, by role and agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Filters(BTreeMap<String, BTreeMap<String, Vec<Refusal>>>);

impl Filters {
    pub fn add(&mut self, role: &str, agent: &str, refused: Resources, expires: Duration, batch: u64) {
        let of_agent = self.0.entry(role.to_owned()).or_default().entry(agent.to_owned()).or_default();
        of_agent.push(Refusal { refused, expires, batch });
    }

    /// Whether an offer is refused: it is contained in what was declined, so the agent has nothing new. `batch` counts
    /// the batches so far, the one under way included.
    pub fn refuses(&mut self, now: Duration, batch: u64, role: &str, agent: &str, offer: &Resources) -> bool {
        let Some(of_role) = self.0.get_mut(role) else { return false };
        let Some(of_agent) = of_role.get_mut(agent) else { return false };
        of_agent.retain(|refusal| refusal.expires > now || batch <= refusal.batch + 1);
        let refused = of_agent.iter().any(|refusal| refusal.refused.contains(offer));
        if of_agent.is_empty() {
            of_role.remove(agent);
        }
        refused
    }

    pub fn clear_role(&mut self, role: &str) {
        self.0.remove(role);
    }

    pub fn retain_roles(&mut self, roles: &BTreeSet<String>) {
        self.0.retain(|role, _| roles.contains(role));
    }

    pub fn clear_agent(&mut self, agent: &str) {
        for of_role in self.0.values_mut() {
            of_role.remove(agent);
        }
    }

    pub fn count_into(&self, now: Duration, counts: &mut BTreeMap<String, usize>) {
        for (role, of_role) in &self.0 {
            let active = of_role.values().flatten().filter(|refusal| refusal.expires > now).count();
            *counts.entry(role.clone()).or_default() += active;
        }
    }
}
