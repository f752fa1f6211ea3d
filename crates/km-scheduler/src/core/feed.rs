//! What placement is told: only what changed since the last round.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use km_kube::{keys, pod};
use km_mesos_proto::v1;
use km_placement::{
    Amounts, AssignedPod, Attribute, Budget, Engine, ExecutorNeed, Need, NodeFacts, Policy, Pool, Ports, Refusal,
    Share, Supply,
};
use km_podtask::{PodKey, ResourceNames, memory_counted, roles, thousandths};

use super::{
    Core, Event,
    agents::{Agent, offer_role, port_set},
    homeless::Homeless,
    pods::{annotation, owner, uid},
    preempting::by_id,
};

/// The placement engine, and what it hasn't been told yet.
pub(super) struct Feed {
    pub engine: Engine,
    nodes: BTreeSet<String>,
    pods: BTreeSet<PodKey>,
    homeless: Homeless,
    /// Pods that were deleted to make room, by UID, until they are gone.
    pub victims: BTreeMap<PodKey, String>,
    /// For owners whose pods have constraints: their pods.
    instances: BTreeMap<String, BTreeSet<PodKey>>,
    owners: BTreeMap<PodKey, String>,
    /// What the placed pods need, with the version of the object that it was read from: a task changes more often than its
    /// pod.
    needs: BTreeMap<PodKey, (String, Arc<Need>)>,
}

/// The offers behind a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolOffers {
    pub offers: Vec<v1::OfferId>,
    pub resources: Vec<v1::Resource>,
}

impl Feed {
    pub fn new(policy: Policy) -> Self {
        Self {
            engine: Engine::new(policy),
            nodes: BTreeSet::new(),
            pods: BTreeSet::new(),
            homeless: Homeless::default(),
            victims: BTreeMap::new(),
            instances: BTreeMap::new(),
            owners: BTreeMap::new(),
            needs: BTreeMap::new(),
        }
    }

    /// Something about this node or its offers changed.
    pub fn node(&mut self, name: &str) {
        if !self.nodes.contains(name) {
            self.nodes.insert(name.to_owned());
        }
    }

    /// Something about this pod changed.
    pub fn pod(&mut self, key: PodKey) {
        self.pods.insert(key);
    }

    /// A pod that waited was placed. It needs what it needed before, unless it names its node: that tells waiting pods apart
    /// and no others.
    pub fn launched(&mut self, key: &PodKey, pod: &Pod, need: Arc<Need>) {
        if node_name(pod).is_none() {
            self.note_need(key, pod, need);
        }
    }

    fn note_need(&mut self, key: &PodKey, pod: &Pod, need: Arc<Need>) {
        // Each write of an object has a version of its own.
        if let Some(version) = pod.metadata.resource_version.clone().filter(|version| !version.is_empty()) {
            self.needs.insert(key.clone(), (version, need));
        }
    }

    /// A PodDisruptionBudget changed, or is gone.
    pub fn budget(&mut self, budget: &PodDisruptionBudget, there: bool) {
        let key = PodKey::of(&budget.metadata).to_string();
        self.engine.set_budget(&key, there.then(|| Budget::new(budget)));
    }

    /// Counts the pods of owners for constraints that divide by their number. Only pods with constraints matter.
    fn count_instance(&mut self, key: &PodKey, of: Option<String>) {
        let before = match &of {
            Some(owner) => self.owners.insert(key.clone(), owner.clone()),
            None => self.owners.remove(key),
        };
        if before == of {
            return;
        }
        if let Some(owner) = before {
            self.change_instances(&owner, |pods| _ = pods.remove(key));
        }
        if let Some(owner) = of {
            self.change_instances(&owner, |pods| _ = pods.insert(key.clone()));
        }
    }

    fn change_instances(&mut self, owner: &str, change: impl FnOnce(&mut BTreeSet<PodKey>)) {
        let pods = self.instances.entry(owner.to_owned()).or_default();
        change(pods);
        let count = u32::try_from(pods.len()).unwrap_or(u32::MAX);
        self.engine.set_instances(owner, count);
        if count == 0 {
            self.instances.remove(owner);
        }
    }
}

impl Core {
    /// Notes what an event may change for placement, before it is taken in.
    pub(super) fn note_change(&mut self, now: Duration, event: &Event) {
        match event {
            Event::Offers(offers) => offers.iter().for_each(|offer| self.feed.node(&offer.hostname)),
            Event::NodeApplied(node) => self.feed.node(node.metadata.name.as_deref().unwrap_or_default()),
            Event::NodeDeleted(name) => self.feed.node(name),
            Event::PodApplied(new) => {
                let key = PodKey::of(&new.metadata);
                if self.pods.get(&key).is_none_or(|old| seen(old) != seen(new)) {
                    self.feed.pod(key);
                    self.queue.stir_soon(now + self.config.backoff.0, false);
                }
            }
            Event::PodDeleted(old) => {
                self.feed.pod(PodKey::of(&old.metadata));
                // It may have kept others away, or held what they need.
                self.queue.stir_soon(now + self.config.backoff.0, true);
            }
            _ => {}
        }
    }

    /// Tells the engine what changed.
    pub(super) fn feed_engine(&mut self) {
        let mut nodes = std::mem::take(&mut self.feed.nodes);
        nodes.append(&mut self.agents.touched);
        let mut pods = std::mem::take(&mut self.feed.pods);
        pods.append(&mut self.tasks.take_changed());
        let new: Vec<String> = nodes.into_iter().filter(|name| self.feed_node(name)).collect();
        for name in &new {
            pods.append(&mut self.feed.homeless.take(name));
        }
        if cfg!(debug_assertions) && !new.is_empty() {
            let on_new = |key: &&PodKey, pod: &Pod| self.place_of(key, pod).is_some_and(|host| new.contains(&host));
            let there = self.pods.iter().filter(|(key, pod)| !pod::is_terminal(pod) && on_new(key, pod));
            there.for_each(|(key, _)| assert!(pods.contains(key), "{key} is on a new node"));
        }
        for key in pods {
            self.feed_pod(&key);
        }
    }

    /// Tells of a node; says whether it is new.
    fn feed_node(&mut self, name: &str) -> bool {
        let agent = self.agents.on_host(name);
        let (Some(agent), Some(node)) = (agent, self.nodes.get(name)) else {
            for id in self.feed.engine.remove_node(name) {
                if let Some(key) = by_id(&id) {
                    self.feed.homeless.set(&key, Some(name));
                }
            }
            return false;
        };
        let facts = NodeFacts {
            capacity: agent.capacity.clone(),
            port_universe: Some(agent.ports.clone()),
            attributes: agent.attributes.iter().filter_map(attribute).collect(),
            ..NodeFacts::of(node)
        };
        let held = self.pool.of_agent(&agent.id).filter(|held| !held.acquired);
        let arrival = held.map(|held| held.since).min().unwrap_or_default();
        let names = &self.config.resource_names;
        let own = names.amounts(agent.executor.as_deref().unwrap_or_default());
        let supply = Supply {
            pools: self
                .pools(agent)
                .into_iter()
                .map(|(role, offers)| Pool { role, shares: shares(&offers.resources, names) })
                .collect(),
            executors: if agent.executor_runs { None } else { Some(self.executor_needs(agent)) },
            executor_use: if agent.executor_runs { own } else { Amounts::default() },
            blocked: self.blocked(agent),
            arrival: u64::try_from(arrival.as_micros()).unwrap_or(u64::MAX),
        };
        let new = self.feed.engine.supply(name).is_none();
        self.feed.engine.set_node(name, facts);
        self.feed.engine.set_supply(name, supply);
        new
    }

    /// Tells of a pod: where it is, if it is anywhere. Pods of other schedulers and mirrors of static pods take their
    /// place like any other.
    fn feed_pod(&mut self, key: &PodKey) {
        let id = key.to_string();
        let known = self.pods.get(key).filter(|pod| !pod::is_terminal(pod)).cloned();
        let constrained = known.as_ref().filter(|pod| annotation(pod, keys::CONSTRAINTS).is_some());
        self.feed.count_instance(key, constrained.and_then(|pod| owner(pod)));
        let still_victim = |victim: &String| known.as_ref().is_some_and(|known| uid(known) == *victim);
        if !self.feed.victims.get(key).is_some_and(still_victim) {
            self.feed.victims.remove(key);
        }
        let waiting = self.queue.get(key).map(|waiting| (&waiting.pending.need, waiting.nominated.as_deref()));
        match waiting {
            Some((need, nominated)) => self.feed.engine.nominate(&id, need, nominated),
            None => self.feed.engine.forget_nominee(&id),
        }
        let place = known.and_then(|known| Some((self.place_of(key, &known)?, known)));
        let node = place.as_ref().map(|(node, _)| node.as_str());
        // Whether or not its need can be read: that is found out again when its node is known.
        self.feed.homeless.set(key, node.filter(|node| self.feed.engine.supply(node).is_none()));
        let need = place.and_then(|(node, known)| Some((self.known_need(key, &known)?, known, node)));
        let Some((need, known, node)) = need else {
            self.feed.needs.remove(key);
            self.feed.engine.remove_pod(&id);
            return;
        };
        let started = known.status.as_ref().and_then(|status| status.start_time.as_ref());
        let started = started.map_or(i64::MAX, |time| time.0.as_second());
        let terminating = pod::is_deleting(&known);
        let preempted = self.feed.victims.contains_key(key) || (terminating && is_preempted(&known));
        self.feed.engine.set_pod(AssignedPod { id, need, node, terminating, started, preempted });
    }

    /// The node that a pod is on or on its way to.
    fn place_of(&self, key: &PodKey, pod: &Pod) -> Option<String> {
        let task = self.tasks.of_pod(key).filter(|task| task.pod_uid == uid(pod));
        task.map(|task| task.hostname.clone()).or_else(|| node_name(pod).map(str::to_owned))
    }

    /// The need of a placed pod, read again only from another version of it; none if it can't be understood.
    pub(super) fn known_need(&mut self, key: &PodKey, pod: &Arc<Pod>) -> Option<Arc<Need>> {
        let version = pod.metadata.resource_version.as_ref();
        if let Some((_, need)) = self.feed.needs.get(key).filter(|(of, _)| Some(of) == version) {
            return Some(Arc::clone(need));
        }
        let need = self.placed_need(pod).ok()?;
        self.feed.note_need(key, pod, Arc::clone(&need));
        Some(need)
    }

    /// What an executor would take of each pool that has room for it.
    fn executor_needs(&self, agent: &Agent) -> Vec<ExecutorNeed> {
        let pools = self.pools(agent).into_iter();
        let needs = pools.filter_map(|(role, pool)| {
            let resources = self.executor_within(agent, &pool.resources)?;
            Some(executor_need(role, &resources))
        });
        needs.collect()
    }

    fn blocked(&self, agent: &Agent) -> Option<Refusal> {
        if agent.lost.is_some() {
            return Some(Refusal::Unreachable);
        }
        if agent.other_executor || agent.retiring.is_some() {
            return Some(Refusal::OtherExecutor);
        }
        if self.is_still_draining(&agent.id) {
            return Some(Refusal::Draining);
        }
        if self.excludes(agent) {
            return Some(Refusal::NoOffer);
        }
        if agent.executor.is_none() && agent.executor_runs {
            return Some(Refusal::OtherExecutor);
        }
        // Without room for the executor nothing was chosen for it.
        if agent.executor.is_none() {
            return Some(Refusal::Insufficient(vec!["cpu".to_owned(), "memory".to_owned()]));
        }
        (!self.node_ready(agent)).then_some(Refusal::NoOffer)
    }

    /// The held offers of an agent by the role they are made to, as the engine numbers the pools.
    pub(super) fn pools(&self, agent: &Agent) -> BTreeMap<String, PoolOffers> {
        let mut by_role: BTreeMap<String, PoolOffers> = BTreeMap::new();
        for held in self.pool.of_agent(&agent.id).filter(|held| !held.acquired) {
            let pool = by_role.entry(offer_role(&held.offer)).or_default();
            pool.offers.push(held.offer.id.clone());
            pool.resources.extend(self.taken_ports.without(&agent.id, held.offer.resources.clone()));
        }
        by_role
    }
}

fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// What placement sees of a pod that has its place.
fn seen(pod: &Pod) -> impl PartialEq + '_ {
    let meta = &pod.metadata;
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    (
        (&meta.uid, &meta.labels, &meta.annotations, &meta.owner_references, &pod.spec),
        (pod::is_terminal(pod), pod::is_deleting(pod), started),
    )
}

/// Whether an earlier scheduler deleted it to make room.
fn is_preempted(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "DisruptionTarget" && condition.reason.as_deref() == Some("PreemptionByScheduler")
    })
}

fn attribute(from: &v1::Attribute) -> Option<(String, Attribute)> {
    let value = if let Some(text) = &from.text {
        Attribute::text(&text.value)
    } else if let Some(scalar) = &from.scalar {
        Attribute::number(scalar.value)
    } else if let Some(ranges) = &from.ranges {
        Attribute::ranges(ranges.range.iter().map(|range| (range.begin, range.end)))
    } else {
        Attribute::set(from.set.as_ref()?.item.iter().cloned())
    };
    Some((from.name.clone(), value))
}

/// The resources by whom they are reserved for.
fn shares(resources: &[v1::Resource], names: &ResourceNames) -> Vec<Share> {
    let mut by_role: BTreeMap<&str, Vec<v1::Resource>> = BTreeMap::new();
    for resource in resources {
        by_role.entry(roles::of_resource(resource)).or_default().push(resource.clone());
    }
    let share = |(role, mine): (&str, Vec<v1::Resource>)| Share {
        role: role.to_owned(),
        free: names.amounts(&mine),
        ports: Ports::Only(port_set(&mine)),
    };
    by_role.into_iter().map(share).collect()
}

fn executor_need(pool_role: String, resources: &[v1::Resource]) -> ExecutorNeed {
    let shares = resources.iter().map(|one| {
        let amount = one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value));
        let amounts = match one.name.as_str() {
            "cpus" => Amounts { milli_cpu: amount, ..Amounts::default() },
            _ => Amounts { memory_bytes: memory_counted(amount), ..Amounts::default() },
        };
        (roles::of_resource(one).to_owned(), amounts)
    });
    ExecutorNeed { pool_role, shares: shares.collect() }
}
