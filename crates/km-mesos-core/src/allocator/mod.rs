//! Who is offered what: hierarchical Dominant Resource Fairness over roles, then over the frameworks of a role.
//!
//! Allocation is coarse: a framework whose turn it is gets all that is free on an agent and that it may have, unless
//! quota limits it. It runs over single agents when something happened to them, and over all agents once per batch
//! interval. Resources that come back are offered by the next batch. The cost of a run depends on agents, roles and
//! frameworks, never on tasks.

mod books;
mod filters;
mod frameworks;
mod pass;
pub mod quota;
pub(crate) mod reservations;
pub(crate) mod scalars;
pub mod sorter;
mod stock;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_mesos_proto::{
    resources::{Quantities, Resources},
    v1::{self, offer::Operation},
};

use frameworks::FrameworkState;
use quota::Quota;
use scalars::scalars_of;
use sorter::Sorter;
use stock::Stock;

/// Resources given to a framework in one of its roles, to be offered to it.
#[derive(Clone, Debug)]
pub struct Grant {
    pub framework: String,
    pub role: String,
    pub agent: String,
    /// Allocated to `role`.
    pub resources: Resources,
}

#[derive(Debug)]
struct AgentState {
    info: v1::AgentInfo,
    /// All there is, unallocated.
    total: Resources,
    /// Offered or in use, unallocated.
    taken: Resources,
    active: bool,
}

impl AgentState {
    /// Shared volumes are always free: any number of frameworks may use them.
    fn free(&self) -> Resources {
        let shared = self.total.shared();
        let rest = self.total.clone() - &self.taken;
        if shared.is_empty() { rest } else { rest.non_shared() + shared }
    }

    fn has_gpus(&self) -> bool {
        !self.total.scalar("gpus").is_zero()
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Allocator {
    interval: Duration,
    min_allocatable: Vec<Quantities>,
    agents: BTreeMap<String, AgentState>,
    frameworks: BTreeMap<String, FrameworkState>,
    roles: Sorter,
    /// The frameworks of each role.
    members: BTreeMap<String, Sorter>,
    weights: BTreeMap<String, f64>,
    quotas: BTreeMap<String, Quota>,
    /// What each role is offered or uses of resources that are reserved for nobody.
    loose: BTreeMap<String, Quantities>,
    stock: Stock,
    /// Agents that something happened to since the last run.
    candidates: BTreeSet<String>,
    /// How many batches were allocated, the one under way included.
    batches: u64,
}

impl Allocator {
    /// An empty one. `min_allocatable`: what an agent must have left to be offered, any one of these.
    pub fn new(interval: Duration, min_allocatable: Vec<Quantities>) -> Self {
        Self {
            interval,
            min_allocatable,
            agents: BTreeMap::new(),
            frameworks: BTreeMap::new(),
            roles: Sorter::default(),
            members: BTreeMap::new(),
            weights: BTreeMap::new(),
            quotas: BTreeMap::new(),
            loose: BTreeMap::new(),
            stock: Stock::default(),
            candidates: BTreeSet::new(),
            batches: 0,
        }
    }

    /// Adds an agent with what is in use there (allocated, by framework). All of it becomes a candidate.
    pub fn add_agent(&mut self, id: &str, info: &v1::AgentInfo, total: &Resources, used: &BTreeMap<String, Resources>) {
        let mut taken = Resources::default();
        for (framework, resources) in used {
            taken += resources.unallocated();
            self.book(framework, resources);
        }
        let state = AgentState { info: info.clone(), total: total.clone(), taken, active: true };
        self.agents.insert(id.to_owned(), state);
        self.pool_changed(id);
        self.candidates.insert(id.to_owned());
    }

    /// Forgets an agent with all that was held there: `held` is what frameworks had, allocated.
    pub fn remove_agent(&mut self, id: &str, held: &BTreeMap<String, Resources>) {
        for (framework, resources) in held {
            self.unbook(framework, resources);
        }
        self.agents.remove(id);
        self.stock.changed(id);
        self.candidates.remove(id);
        for framework in self.frameworks.values_mut() {
            framework.filters.clear_agent(id);
        }
        self.roles.remove_agent(id);
        self.sync_totals();
    }

    /// Changes what an agent is; filters on it end, as it may be another machine by now.
    pub fn update_agent(&mut self, id: &str, info: &v1::AgentInfo, total: &Resources) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let changed = agent.info.attributes != info.attributes || agent.total != *total;
        agent.info = info.clone();
        agent.total = total.clone();
        if changed {
            for framework in self.frameworks.values_mut() {
                framework.filters.clear_agent(id);
            }
            self.pool_changed(id);
        }
        self.candidates.insert(id.to_owned());
    }

    /// Whether an agent's resources may be offered.
    pub fn set_agent_active(&mut self, id: &str, active: bool) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.active = active;
        self.stock.changed(id);
        if active {
            self.candidates.insert(id.to_owned());
        }
    }

    /// Takes resources back that a framework was offered or used (allocated form). With a refusal they are not offered
    /// to it again (in that role, on that agent) for that long, or at least over one batch.
    pub fn recover(
        &mut self,
        now: Duration,
        framework: &str,
        agent: &str,
        resources: &Resources,
        refusal: Option<Duration>,
    ) {
        if resources.is_empty() {
            return;
        }
        if let Some(state) = self.agents.get_mut(agent) {
            state.taken -= resources.unallocated();
            self.stock.changed(agent);
        }
        self.unbook(framework, resources);
        let Some(refusal) = refusal.filter(|refusal| !refusal.is_zero()) else { return };
        let expires = now + refusal.max(self.interval);
        if let Some(state) = self.frameworks.get_mut(framework) {
            for (role, refused) in resources.allocations() {
                state.filters.add(role, agent, refused.unallocated(), expires, self.batches);
            }
        }
    }

    /// What a framework holds was changed by an operation: `before` became `after` (both allocated).
    pub fn convert(&mut self, framework: &str, agent: &str, before: &Resources, after: &Resources) {
        if let Some(state) = self.agents.get_mut(agent) {
            let (before, after) = (before.unallocated(), after.unallocated());
            state.total -= &before;
            state.total += &after;
            state.taken -= &before;
            state.taken += &after;
        }
        self.rebook(framework, before, after);
        self.pool_changed(agent);
    }

    /// What nobody holds is changed by an operator's operation: gives what was free and what is then. Fails when what
    /// the operation needs is not free.
    pub fn convert_free(&mut self, agent: &str, operation: &Operation) -> Result<(Resources, Resources), String> {
        let Some(state) = self.agents.get_mut(agent) else { return Err("Agent is not known".to_owned()) };
        let before = state.free();
        let after = before.apply(operation).map_err(|error| error.to_string())?;
        state.total -= &before;
        state.total += &after;
        self.pool_changed(agent);
        self.candidates.insert(agent.to_owned());
        Ok((before, after))
    }

    /// A task uses a shared volume that its framework was offered too: one more copy is taken.
    pub fn take_copies(&mut self, framework: &str, agent: &str, volumes: &Resources) {
        if let Some(state) = self.agents.get_mut(agent) {
            state.taken += volumes.unallocated();
            self.stock.changed(agent);
        }
        self.book(framework, volumes);
    }

    /// What of an agent nobody is offered or uses.
    pub fn free(&self, agent: &str) -> Resources {
        self.agents.get(agent).map(AgentState::free).unwrap_or_default()
    }

    /// Sets a role's weight; 1 is the default.
    pub fn set_weight(&mut self, role: &str, weight: f64) {
        self.roles.set_weight(role, weight);
        self.weights.insert(role.to_owned(), weight);
    }

    /// All weights that were set.
    pub fn weights(&self) -> &BTreeMap<String, f64> {
        &self.weights
    }

    /// Sets a role's quota; an empty one has no effect, but stays known as set.
    pub fn set_quota(&mut self, role: &str, quota: Quota) {
        self.quotas.insert(role.to_owned(), quota);
    }

    /// Forgets that a role had one.
    pub fn remove_quota(&mut self, role: &str) {
        self.quotas.remove(role);
    }

    /// All quotas that were set, empty ones too.
    pub fn quotas(&self) -> &BTreeMap<String, Quota> {
        &self.quotas
    }

    /// How many filters are in force, by role.
    pub fn active_filters(&self, now: Duration) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for framework in self.frameworks.values() {
            framework.filters.count_into(now, &mut all);
        }
        all
    }

    /// A role's dominant share, 0 to 1.
    pub fn share(&self, role: &str) -> f64 {
        self.roles.share(role)
    }

    fn consider_all(&mut self) {
        self.candidates.extend(self.agents.keys().cloned());
    }

    fn pool_changed(&mut self, id: &str) {
        self.stock.changed(id);
        if let Some(agent) = self.agents.get(id) {
            self.roles.add_agent(id, scalars_of(&agent.total));
        }
        self.sync_totals();
    }

    fn sync_totals(&mut self) {
        let total = self.roles.total().clone();
        for sorter in self.members.values_mut() {
            sorter.add_agent("pool", total.clone());
        }
    }
}
