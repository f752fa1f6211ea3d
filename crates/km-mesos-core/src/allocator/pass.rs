//! One allocation run over some agents.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    time::Duration,
};

use km_mesos_proto::{
    constraints::Traits,
    resources::{Quantities, Resources},
};

use super::{Allocator, Grant, quota::Room};

impl Allocator {
    /// Whether something happened since the last run that may change who gets what.
    pub fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Allocates what is free on agents that something happened to.
    pub fn allocate_candidates(&mut self, now: Duration) -> Vec<Grant> {
        let candidates = std::mem::take(&mut self.candidates);
        self.allocate(now, &candidates)
    }

    /// Allocates what is free on all agents.
    pub fn allocate_all(&mut self, now: Duration) -> Vec<Grant> {
        self.candidates.clear();
        self.batches += 1;
        let all = self.agents.keys().cloned().collect();
        self.allocate(now, &all)
    }

    fn allocate(&mut self, now: Duration, agents: &BTreeSet<String>) -> Vec<Grant> {
        let offerable: Vec<String> = agents.iter().filter(|id| self.is_offerable(id)).cloned().collect();
        if offerable.is_empty() || self.members.is_empty() {
            return Vec::new();
        }
        let mut grants = Vec::new();
        let mut room = Room::of(self);
        let guarantees = room.has_guarantees();
        if guarantees {
            for agent in &offerable {
                self.serve_guarantees(now, agent, &mut room, &mut grants);
            }
        }
        for agent in &offerable {
            self.serve_agent(now, agent, &mut room, &mut grants);
        }
        // Without guarantees each of them was given to once.
        if guarantees { join(grants) } else { grants }
    }

    fn is_offerable(&self, id: &str) -> bool {
        self.agents.get(id).is_some_and(|agent| agent.active && agent.taken != agent.total)
    }

    /// First everybody's guarantee, finely: no more than what is still owed.
    fn serve_guarantees(&mut self, now: Duration, agent: &str, room: &mut Room, grants: &mut Vec<Grant>) {
        for role in self.roles.sort() {
            if !room.is_owed(&role) {
                continue;
            }
            for framework in self.turns(&role) {
                if !room.is_owed(&role) {
                    break;
                }
                let Some(wish) = self.wish(agent, &framework, &role) else { continue };
                let given = room.guaranteed_part(&role, &wish);
                self.give(now, agent, framework, &role, given, room, grants);
            }
        }
    }

    /// Then all that is left, by fair share, but never what is owed to others or beyond a role's limit.
    fn serve_agent(&mut self, now: Duration, agent: &str, room: &mut Room, grants: &mut Vec<Grant>) {
        for role in self.roles.sort() {
            for framework in self.turns(&role) {
                let Some(wish) = self.wish(agent, &framework, &role) else { continue };
                let given = room.allowed_part(&role, &wish);
                self.give(now, agent, framework, &role, given, room, grants);
            }
        }
    }

    fn turns(&self, role: &str) -> Vec<String> {
        self.members.get(role).map(super::Sorter::sort).unwrap_or_default()
    }

    /// What of an agent a framework could be offered in a role. None when it is not to get anything there.
    fn wish(&self, agent_id: &str, framework: &str, role: &str) -> Option<Resources> {
        let agent = self.agents.get(agent_id)?;
        let framework = self.frameworks.get(framework)?;
        if agent.has_gpus() && !framework.gpus {
            return None;
        }
        if !framework.constraints.allow(role, &Traits::from(&agent.info)) {
            return None;
        }
        let free = agent.free().allocatable_to(role);
        let free = free.filter(|resource| {
            (framework.refinement || resource.reservations.len() < 2)
                && (framework.shared || !resource.shared)
                && (framework.revocable || !resource.revocable)
        });
        (!free.is_empty()).then_some(free)
    }

    #[allow(clippy::too_many_arguments)]
    fn give(
        &mut self,
        now: Duration,
        agent: &str,
        framework: String,
        role: &str,
        resources: Resources,
        room: &mut Room,
        grants: &mut Vec<Grant>,
    ) {
        let Some(state) = self.frameworks.get_mut(&framework) else { return };
        let least = state.min_allocatable.get(role).unwrap_or(&self.min_allocatable);
        // Shared volumes alone are free again and again.
        let nothing_own = resources.non_shared().is_empty();
        if nothing_own
            || !is_enough(&resources, least)
            || state.filters.refuses(now, self.batches, role, agent, &resources)
        {
            return;
        }
        room.take(role, &resources);
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.taken += &resources;
        }
        self.stock.changed(agent);
        let resources = resources.allocated(role);
        self.book(&framework, &resources);
        grants.push(Grant { framework, role: role.to_owned(), agent: agent.to_owned(), resources });
    }
}

/// Whether a remainder is worth an offer: it covers one of the minima, or is anything at all when there is none.
fn is_enough(resources: &Resources, least: &[Quantities]) -> bool {
    if resources.is_empty() {
        return false;
    }
    let amounts = Quantities::of(resources);
    least.is_empty() || least.iter().any(|minimum| amounts.contains(minimum))
}

/// One offer per framework, role and agent, though guarantees and fair share may both have given something.
fn join(grants: Vec<Grant>) -> Vec<Grant> {
    let mut places: HashMap<(String, String, String), usize> = HashMap::new();
    let mut joined: Vec<Grant> = Vec::new();
    for grant in grants {
        let whose = (grant.framework.clone(), grant.role.clone(), grant.agent.clone());
        match places.entry(whose) {
            Entry::Occupied(place) => joined[*place.get()].resources += grant.resources,
            Entry::Vacant(place) => {
                place.insert(joined.len());
                joined.push(grant);
            }
        }
    }
    joined
}
