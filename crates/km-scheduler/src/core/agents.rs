//! The agents of the Mesos cluster as far as they showed themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Taint};
use km_kube::keys;
use km_mesos_proto::v1;
use km_offers::DeclineReason;
use km_placement::{Amounts, PortSet};
use km_podtask::{executor, offered_ports, take, thousandths};

use super::{
    Action, AgentSeen, Core, Maintenance,
    timetable::Timetable,
    upkeep::{Upkeep, Window},
};
use crate::wire::domain;

/// One agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Agent {
    pub id: String,
    pub hostname: String,
    pub attributes: Vec<v1::Attribute>,
    /// All that it has, as far as seen.
    pub capacity: Amounts,
    pub ports: PortSet,
    /// Whether the master listed it all, rather than offers showing a part.
    pub wholly_known: bool,
    /// What the executor there takes or will take: the same for all its tasks.
    pub executor: Option<Vec<v1::Resource>>,
    /// The executor that tasks there are launched with: the one that runs, else the present one.
    pub executor_id: String,
    /// Whether it runs, as far as known.
    pub executor_runs: bool,
    /// Whether an offer said which executors run there, or Mesos that it has ended.
    pub executor_told: bool,
    /// Whether one of ours runs of which nothing is known: Mesos takes no tasks for it.
    pub other_executor: bool,
    /// When it was last asked to end: its configuration is an earlier one, or its agent drains.
    pub retiring: Option<Duration>,
    /// Since when it is gone; set by [`Agents::set_lost`].
    pub lost: Option<Duration>,
    /// The same in UNIX time, and not counted anew while tasks may come back: what pods tolerate counts from then.
    pub unreachable_since: Option<Duration>,
    pub upkeep: Upkeep,
    /// Region and zone.
    pub domain: Option<(String, String)>,
    pub has_gpus: bool,
    /// Whether nothing changed since the master's list of agents was last taken in.
    pub listed: bool,
    /// Whether attributes and the like are known, rather than the mere id.
    pub described: bool,
    /// What was last written about its node, to not write it again before the answer is seen.
    pub asked: Option<serde_json::Value>,
    /// The same about its extended resources.
    pub asked_extended: Option<serde_json::Value>,
    /// The same about its taints.
    pub asked_taints: Option<Vec<Taint>>,
}

/// All agents by id, and the current one of each host name.
#[derive(Default)]
pub(super) struct Agents {
    by_id: BTreeMap<String, Agent>,
    by_host: BTreeMap<String, String>,
    /// Since when those that are gone are.
    lost: Timetable<String>,
    /// Host names of agents that may have changed since placement last looked.
    pub touched: BTreeSet<String>,
}

impl Agents {
    pub fn get(&self, id: &str) -> Option<&Agent> {
        self.by_id.get(id)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Agent> {
        let agent = self.by_id.get_mut(id)?;
        self.touched.insert(agent.hostname.clone());
        agent.listed = false;
        Some(agent)
    }

    /// Placement looks at the agent again.
    pub fn touch(&mut self, id: &str) {
        if let Some(agent) = self.by_id.get(id) {
            self.touched.insert(agent.hostname.clone());
        }
    }

    /// What the master lists of that host's agent is taken in again, though it didn't change.
    pub fn look_again(&mut self, hostname: &str) {
        if let Some(agent) = self.by_host.get(hostname).and_then(|id| self.by_id.get_mut(id)) {
            agent.listed = false;
        }
    }

    fn set_listed(&mut self, id: &str) {
        if let Some(agent) = self.by_id.get_mut(id) {
            agent.listed = true;
        }
    }

    /// The agent that last showed itself under that host name.
    pub fn on_host(&self, hostname: &str) -> Option<&Agent> {
        self.by_host.get(hostname).and_then(|id| self.by_id.get(id))
    }

    /// The current agents ordered by host name.
    pub fn current(&self) -> impl Iterator<Item = &Agent> {
        self.by_host.values().filter_map(|id| self.by_id.get(id))
    }

    /// All agents, also those that others replaced.
    pub fn all(&self) -> impl Iterator<Item = &Agent> {
        self.by_id.values()
    }

    /// The entry of an agent, new when it wasn't known. It becomes its host's current one.
    pub fn learn(&mut self, id: &str, hostname: &str) -> &mut Agent {
        self.by_host.insert(hostname.to_owned(), id.to_owned());
        self.touched.insert(hostname.to_owned());
        let new = || Agent { id: id.to_owned(), hostname: hostname.to_owned(), ..Agent::default() };
        let agent = self.by_id.entry(id.to_owned()).or_insert_with(new);
        agent.listed = false;
        agent
    }

    pub fn forget(&mut self, id: &str) {
        let Some(agent) = self.by_id.remove(id) else { return };
        self.lost.set(&agent.id, None);
        if self.by_host.get(&agent.hostname).is_some_and(|current| current == id) {
            self.by_host.remove(&agent.hostname);
            self.touched.insert(agent.hostname);
        }
    }

    /// The agent is gone since then, or (with none) back.
    pub fn set_lost(&mut self, id: &str, since: Option<Duration>) {
        if let Some(agent) = self.get_mut(id) {
            agent.lost = since;
            self.lost.set(&id.to_owned(), since);
        }
    }

    /// When the next agent has been gone for the grace period.
    pub fn next_deadline(&self, grace: Duration) -> Option<Duration> {
        self.lost.first().map(|since| since + grace)
    }

    /// Those that are gone for the grace period.
    pub fn expired(&self, now: Duration, grace: Duration) -> Vec<Agent> {
        let ids = now.checked_sub(grace).map(|limit| self.lost.due(limit)).unwrap_or_default();
        ids.iter().filter_map(|id| self.by_id.get(id)).cloned().collect()
    }

    /// Panics unless the index says what the agents say.
    pub fn check_index(&self) {
        let lost = self.by_id.iter().filter_map(|(id, agent)| Some((id.clone(), agent.lost?)));
        assert_eq!(*self.lost.times(), lost.collect::<BTreeMap<_, _>>(), "agents that are gone");
    }

    /// Agents with the executors that their nodes name.
    pub fn executors(&self, nodes: &BTreeMap<String, Arc<Node>>) -> Vec<(String, String)> {
        let executor = |agent: &Agent| {
            let annotations = nodes.get(&agent.hostname)?.metadata.annotations.as_ref()?;
            Some((agent.id.clone(), annotations.get(keys::EXECUTOR_ID)?.clone()))
        };
        self.current().filter_map(executor).collect()
    }
}

pub(super) fn port_set(resources: &[v1::Resource]) -> PortSet {
    PortSet::new(offered_ports(resources).into_iter().map(|range| (range.begin, range.end)))
}

impl Core {
    pub(super) fn on_offers(&mut self, now: Duration, offers: Vec<v1::Offer>, out: &mut Vec<Action>) {
        let (mut refused, mut unwanted) = (Vec::new(), Vec::new());
        let mut agents = Vec::new();
        for offer in &offers {
            self.learn_from_offer(now, offer, out);
            if self.agents.get(&offer.agent_id.value).is_some_and(|agent| agent.other_executor) {
                refused.push(offer.id.clone());
            } else if !self.wants(offer) {
                unwanted.push(offer.id.clone());
            }
            agents.push(offer.agent_id.value.clone());
        }
        self.offers(now, km_offers::Event::Received(offers), out);
        agents.sort_unstable();
        agents.dedup();
        agents.iter().for_each(|agent| self.measure(agent));
        for (offers, reason) in [(refused, DeclineReason::Incompatible), (unwanted, DeclineReason::Unwanted)] {
            self.offers(now, km_offers::Event::Refused(offers, reason), out);
        }
        for agent in agents {
            self.choose_executor(&agent);
            self.ensure_node(&agent, out);
            self.ensure_taints(now, &agent, out);
        }
        self.demand.touch(now);
    }

    fn learn_from_offer(&mut self, now: Duration, offer: &v1::Offer, out: &mut Vec<Action>) {
        let id = offer.agent_id.value.as_str();
        self.meet_agent(now, id, &offer.hostname, out);
        // A drained or deactivated agent makes no offers.
        let window = offer.unavailability.as_ref().map(Window::new);
        self.set_upkeep(now, id, Upkeep { window, ..Upkeep::default() }, out);
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.attributes.clone_from(&offer.attributes);
        agent.domain = domain(offer.domain.as_ref()).or(agent.domain.take());
        agent.has_gpus |= has_gpus(&offer.resources);
        agent.described = true;
        agent.ports = agent.ports.union(&port_set(&offer.resources));
        self.note_executors(id, &offer.executor_ids);
    }

    /// Raises what is known of an agent's size: what it offers now and what our tasks hold.
    fn measure(&mut self, id: &str) {
        let offered: Vec<v1::Resource> =
            self.pool.of_agent(id).flat_map(|held| held.offer.resources.iter().cloned()).collect();
        let names = &self.config.resource_names;
        let mut seen = names.amounts(&offered);
        for task in self.tasks.of_agent(id) {
            seen.add(&names.amounts(&task.resources));
        }
        if let Some(agent) = self.agents.get_mut(id) {
            if agent.executor_runs {
                seen.add(&names.amounts(agent.executor.as_deref().unwrap_or_default()));
            }
            agent.capacity.raise_to(&seen);
        }
    }

    /// Fixes what the executor of an agent takes: as its node says, else from what is offered. As long as it doesn't
    /// run, the choice may change with the offers.
    fn choose_executor(&mut self, id: &str) {
        let Some(agent) = self.agents.get(id) else { return };
        let chosen = agent.executor.clone().or_else(|| self.noted_executor(agent));
        let mut choice = chosen.clone();
        let settled = agent.executor_runs || chosen.is_some() && self.has_tasks(id);
        if !settled {
            let by_role = self.offered_by_role(id);
            let fits = |resources: &Vec<v1::Resource>| {
                by_role.iter().any(|(_, offered)| takes_executor(&mut offered.clone(), resources))
            };
            if !chosen.as_ref().is_some_and(fits) {
                let new = by_role.iter().find_map(|(_, offered)| self.executor_from(offered.clone()));
                choice = new.or(chosen);
            }
        }
        if let Some(agent) = self.agents.get_mut(id) {
            agent.executor = choice;
        }
    }

    /// Whether tasks of ours are there. Then what their executor takes is settled, though Mesos says that none runs: an
    /// offer may be older than the launch, and word of an executor's end may come after the launch of the next.
    fn has_tasks(&self, agent: &str) -> bool {
        self.tasks.of_agent(agent).next().is_some()
    }

    /// What the executor of an agent takes of the offers to one role: what was chosen, if they hold it, else anew.
    pub(super) fn executor_within(&self, agent: &Agent, offered: &[v1::Resource]) -> Option<Vec<v1::Resource>> {
        let fits = |resources: &Vec<v1::Resource>| takes_executor(&mut offered.to_vec(), resources);
        let chosen = agent.executor.clone().filter(fits);
        let settled = agent.executor.is_some() && self.has_tasks(&agent.id);
        chosen.or_else(|| self.executor_from(offered.to_vec()).filter(|_| !settled))
    }

    /// The executor's resources as the agent's node remembers them, if they are of the same executor.
    fn noted_executor(&self, agent: &Agent) -> Option<Vec<v1::Resource>> {
        let annotations = self.nodes.get(&agent.hostname)?.metadata.annotations.as_ref()?;
        if *annotations.get(keys::EXECUTOR_ID)? != agent.executor_id {
            return None;
        }
        executor::decode_resources(annotations.get(keys::EXECUTOR_RESOURCES)?).ok()
    }

    fn executor_from(&self, mut offered: Vec<v1::Resource>) -> Option<Vec<v1::Resource>> {
        let roles = &self.config.framework.roles;
        let any = [km_podtask::roles::ANY.to_owned()];
        // Unreserved resources are every framework's.
        let roles: Vec<String> = roles.iter().filter(|role| **role != any[0]).chain(&any).cloned().collect();
        let memory = km_podtask::memory_to_mesos(self.config.executor_memory_bytes);
        let mut all = take(&mut offered, "cpus", self.config.executor_milli_cpu, &roles)?;
        all.extend(take(&mut offered, "mem", memory, &roles)?);
        Some(all)
    }

    /// The held offers' resources of an agent by the role they are made to.
    pub(super) fn offered_by_role(&self, id: &str) -> Vec<(String, Vec<v1::Resource>)> {
        let mut by_role: BTreeMap<String, Vec<v1::Resource>> = BTreeMap::new();
        for held in self.pool.of_agent(id).filter(|held| !held.acquired) {
            by_role.entry(offer_role(&held.offer)).or_default().extend(held.offer.resources.iter().cloned());
        }
        by_role.into_iter().collect()
    }

    /// The operator API's list of agents: makes nodes for those without offers, and finds out those that went while
    /// nobody was subscribed.
    pub(super) fn on_agents(&mut self, now: Duration, seen: Vec<AgentSeen>, out: &mut Vec<Action>) {
        self.demand.agents_visible = true;
        for one in seen.iter().filter(|one| one.active) {
            let as_listed = self.agents.get(&one.id).is_some_and(|agent| self.is_as_listed(now, agent, one));
            // What is known is looked at again only to see that it needn't be.
            if as_listed && !cfg!(debug_assertions) {
                continue;
            }
            let known = self.agents.get(&one.id).filter(|_| as_listed).cloned();
            let actions = out.len();
            self.meet_agent(now, &one.id, &one.hostname, out);
            if let Some(agent) = self.agents.get_mut(&one.id) {
                agent.attributes.clone_from(&one.attributes);
                agent.capacity = self.config.resource_names.amounts(&one.resources);
                agent.wholly_known = true;
                agent.ports = port_set(&one.resources);
                agent.domain.clone_from(&one.domain);
                agent.has_gpus = has_gpus(&one.resources);
                agent.described = true;
            }
            self.note_upkeep(now, one, out);
            self.choose_executor(&one.id);
            self.ensure_node(&one.id, out);
            self.ensure_taints(now, &one.id, out);
            self.agents.set_listed(&one.id);
            if let Some(known) = known {
                assert_eq!(out.len(), actions, "an agent that is as it was listed asks for something");
                assert_eq!(self.agents.get(&one.id), Some(&known), "an agent that is as it was listed");
            }
        }
        let trusted = self.subscribed.is_some_and(|since| since + self.config.unknown_grace <= now);
        if trusted {
            self.find_vanished(now, &seen, out);
        }
    }

    /// Whether the list says of an agent what it said before, and nothing else happened to the agent.
    fn is_as_listed(&self, now: Duration, agent: &Agent, seen: &AgentSeen) -> bool {
        // What time changes is due.
        let upkeep_due = self.upkeeps.first().is_some_and(|next| next <= now);
        agent.listed
            && !upkeep_due
            && agent.lost.is_none()
            && !self.is_said_to_be_lost(&agent.hostname)
            && self.agents.on_host(&seen.hostname).is_some_and(|current| current.id == seen.id)
            && agent.attributes == seen.attributes
            && agent.capacity == self.config.resource_names.amounts(&seen.resources)
            && agent.ports == port_set(&seen.resources)
            && agent.domain == seen.domain
            && agent.has_gpus == has_gpus(&seen.resources)
            && agent.upkeep == upkeep_of(agent, seen)
    }

    fn note_upkeep(&mut self, now: Duration, seen: &AgentSeen, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get(&seen.id) else { return };
        let upkeep = upkeep_of(agent, seen);
        self.set_upkeep(now, &seen.id, upkeep, out);
    }
}

/// That a maintenance was called off which we have agreed to is said nowhere but in the schedule.
fn upkeep_of(agent: &Agent, seen: &AgentSeen) -> Upkeep {
    let window = match &seen.maintenance {
        Maintenance::Untold => agent.upkeep.window,
        Maintenance::NotPlanned => None,
        Maintenance::Planned(planned) => Some(Window::new(planned)),
    };
    Upkeep { draining: seen.draining, deactivated: seen.deactivated, window }
}

fn has_gpus(resources: &[v1::Resource]) -> bool {
    let amount = |one: &v1::Resource| one.scalar.as_ref().map_or(0.0, |scalar| scalar.value);
    resources.iter().any(|one| one.name == "gpus" && amount(one) > 0.0)
}

/// The role an offer is made to.
pub(super) fn offer_role(offer: &v1::Offer) -> String {
    let role = offer.allocation_info.as_ref().and_then(|allocation| allocation.role.clone());
    role.unwrap_or_else(|| km_podtask::roles::ANY.to_owned())
}

/// Takes the executor's resources out of what is offered; says whether they were all there.
pub(super) fn takes_executor(offered: &mut Vec<v1::Resource>, executor: &[v1::Resource]) -> bool {
    executor.iter().all(|one| {
        let amount = one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value));
        let role = km_podtask::roles::of_resource(one).to_owned();
        let same = |other: &v1::Resource| other.allocation_info == one.allocation_info;
        offered.iter().any(same) && take(offered, &one.name, amount, &[role]).is_some()
    })
}
