//! The engine: what is known of nodes and pods, kept up to date by changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};

use crate::{
    budget::Budget,
    census::Census,
    class::{Class, World},
    fit::Taken,
    hash::Map,
    need::Need,
    node::{NodeFacts, Supply},
    nodes::Nodes,
    nominees::Nominees,
    slab::Slab,
    strategy::{Chooser, Policy, Strategy},
    volumes::{Binding, Storage},
};

/// So many facts about nodes are kept over all classes; the classes used least go first.
const REMEMBERED: usize = 4_000_000;
/// So many classes are kept whatever their size.
const FEWEST_CLASSES: usize = 16;
/// Fewer needs than this are not looked through for forgotten ones.
const FEW_NEEDS: usize = 1024;

/// A pod that has a node.
#[derive(Clone, Debug)]
pub struct AssignedPod {
    /// Namespace and name with a slash between.
    pub id: String,
    pub need: Arc<Need>,
    pub node: String,
    /// Its deletion was asked for.
    pub terminating: bool,
    /// When it started, in seconds since any time.
    pub started: i64,
    /// It is being deleted to make room (condition `DisruptionTarget`, reason `PreemptionByScheduler`).
    pub preempted: bool,
}

/// The same, in short.
pub(crate) struct Assigned {
    pub id: Arc<str>,
    pub need: Arc<Need>,
    pub node: u32,
    pub terminating: bool,
    pub started: i64,
    pub preempted: bool,
}

/// Decides where pods go. It is told of changes, and keeps what follows from them. The same calls in the same order
/// give the same decisions.
pub struct Engine {
    pub(crate) nodes: Nodes,
    pub(crate) census: Census,
    pub(crate) nominees: Nominees,
    storage: Storage,
    pub(crate) pods: Slab<Assigned>,
    pub(crate) by_id: Map<Arc<str>, u32>,
    /// How many of the pods have each priority.
    priorities: BTreeMap<i32, usize>,
    pub(crate) budgets: BTreeMap<String, Budget>,
    pub(crate) instances: BTreeMap<String, u32>,
    classes: BTreeMap<usize, Class>,
    shared: Map<Arc<Need>, ()>,
    /// With so many needs it is looked for those that nobody has any more.
    sweep_at: usize,
    choosers: BTreeMap<&'static str, Box<dyn Chooser>>,
    default: Box<dyn Chooser>,
    policy: Policy,
    uses: u64,
    /// Grows with every change that a caller tells, as opposed to placements of the engine itself.
    pub(crate) told: u64,
    /// Where the next preemption starts to look.
    pub(crate) turn: usize,
}

impl Engine {
    pub fn new(policy: Policy) -> Self {
        Self::with_chooser(policy, policy.strategy.chooser())
    }

    /// With a way to choose that isn't built in; pods may still ask for a built-in one.
    pub fn with_chooser(policy: Policy, default: Box<dyn Chooser>) -> Self {
        let known = Strategy::ALL.into_iter().map(|strategy| (strategy.name(), strategy.chooser()));
        Self {
            nodes: Nodes::default(),
            census: Census::default(),
            nominees: Nominees::default(),
            storage: Storage::default(),
            pods: Slab::default(),
            by_id: Map::default(),
            priorities: BTreeMap::new(),
            budgets: BTreeMap::new(),
            instances: BTreeMap::new(),
            classes: BTreeMap::new(),
            shared: Map::default(),
            sweep_at: FEW_NEEDS,
            choosers: known.collect(),
            default,
            policy,
            uses: 0,
            told: 0,
            turn: 0,
        }
    }

    /// The one copy of a need: pods with equal needs must share it to share the work.
    pub fn share(&mut self, need: Need) -> Arc<Need> {
        if let Some((known, ())) = self.shared.get_key_value(&need) {
            return Arc::clone(known);
        }
        if self.shared.len() >= self.sweep_at {
            self.sweep_needs();
        }
        let need = Arc::new(need);
        self.shared.insert(Arc::clone(&need), ());
        need
    }

    /// Forgets needs that nobody has any more. The next time is far enough that a need costs the same, however many there
    /// are.
    fn sweep_needs(&mut self) {
        self.shared.retain(|need, ()| Arc::strong_count(need) > 1);
        self.sweep_at = FEW_NEEDS.max(2 * self.shared.len());
    }

    /// A node came or is described anew.
    pub fn set_node(&mut self, name: &str, facts: NodeFacts) {
        let id = self.nodes.learn(name);
        if self.nodes.at(id).facts != facts {
            self.nodes.at_mut(id).facts = facts;
            self.nodes.touch(id, true);
            self.told += 1;
        }
    }

    /// What a node offers now, instead of what it offered before. An unknown node is made.
    pub fn set_supply(&mut self, name: &str, supply: Supply) {
        let id = self.nodes.learn(name);
        let node = self.nodes.at_mut(id);
        node.version += 1;
        if node.supply != supply {
            node.supply = supply;
            self.nodes.touch(id, false);
            self.told += 1;
        }
    }

    /// What a node offers, less what was placed there since.
    pub fn supply(&self, name: &str) -> Option<&Supply> {
        Some(&self.nodes.at(self.nodes.find(name)?).supply)
    }

    /// A node went. The pods on it are forgotten with it: their ids.
    pub fn remove_node(&mut self, name: &str) -> Vec<Arc<str>> {
        let Some(id) = self.nodes.find(name) else { return Vec::new() };
        let pods = self.nodes.at(id).pods.clone();
        let forgotten = pods.iter().map(|pod| Arc::clone(&self.pods[*pod].id)).collect();
        for pod in pods {
            self.drop_pod(pod);
        }
        for pod in self.nominees.all_on(id) {
            self.nominees.remove(&pod);
        }
        self.nodes.forget(id);
        self.told += 1;
        forgotten
    }

    /// A pod is on a node, or is there in another state. On an unknown node it doesn't count.
    pub fn set_pod(&mut self, pod: AssignedPod) {
        let node = self.nodes.find(&pod.node);
        if let Some(at) = self.by_id.get(pod.id.as_str()) {
            let known = &mut self.pods[*at];
            let same = Arc::ptr_eq(&known.need, &pod.need) && known.terminating == pod.terminating;
            if same && Some(known.node) == node {
                known.started = pod.started;
                known.preempted = pod.preempted;
                return;
            }
        }
        self.remove_pod(&pod.id);
        let Some(node) = node else { return };
        let AssignedPod { need, terminating, started, preempted, .. } = pod;
        self.put(Assigned { id: pod.id.into(), need, node, terminating, started, preempted });
        self.told += 1;
    }

    pub fn remove_pod(&mut self, id: &str) {
        if let Some(at) = self.by_id.get(id).copied() {
            self.drop_pod(at);
            self.told += 1;
        }
    }

    /// How many instances an owner wants, for constraints that divide by it.
    pub fn set_instances(&mut self, owner: &str, instances: u32) {
        if instances == 0 {
            self.instances.remove(owner);
        } else {
            self.instances.insert(owner.to_owned(), instances);
        }
    }

    /// The labels of a namespace; none when it is gone.
    pub fn set_namespace(&mut self, name: &str, labels: Option<BTreeMap<String, String>>) {
        self.census.set_namespace(name, labels);
        self.told += 1;
    }

    /// A claim by namespace and name; none when it is gone.
    pub fn set_claim(&mut self, id: &str, claim: Option<&PersistentVolumeClaim>) {
        self.storage.set_claim(id, claim);
        self.told += 1;
    }

    /// A persistent volume; none when it is gone.
    pub fn set_volume(&mut self, name: &str, volume: Option<&PersistentVolume>) {
        self.storage.set_volume(name, volume);
        self.told += 1;
    }

    /// A storage class; none when it is gone.
    pub fn set_storage_class(&mut self, name: &str, class: Option<&StorageClass>) {
        self.storage.set_class(name, class);
        self.told += 1;
    }

    /// What is to be done before a pod can start on a node that it was placed on: for each of its claims that isn't bound. None
    /// when they can't be bound there any more, as another pod took a volume.
    pub fn bindings(&self, need: &Need, node: &str) -> Option<Vec<Binding>> {
        self.storage.bindings(self.nodes.at(self.nodes.find(node)?), need)
    }

    /// A PodDisruptionBudget by namespace and name; none when it is gone.
    pub fn set_budget(&mut self, id: &str, budget: Option<Budget>) {
        match budget {
            Some(budget) => self.budgets.insert(id.to_owned(), budget),
            None => self.budgets.remove(id),
        };
    }

    /// Room is kept on a node for a pod that waits; none when no more.
    pub fn nominate(&mut self, id: &str, need: &Arc<Need>, node: Option<&str>) {
        let node = node.and_then(|name| self.nodes.find(name));
        if self.nominees.of(id) == node {
            return;
        }
        self.forget_nominee(id);
        if let Some(node) = node {
            self.nominees.add(id, need, node);
            self.nodes.touch(node, false);
        }
        self.told += 1;
    }

    /// No room is kept for the pod any more.
    pub fn forget_nominee(&mut self, id: &str) {
        if let Some(old) = self.nominees.remove(id) {
            self.nodes.touch(old, false);
            self.told += 1;
        }
    }

    /// The names of all nodes, in the order in which they came.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|(_, node)| node.name.as_str())
    }

    /// Whether any pod is less important.
    pub(crate) fn has_lesser(&self, priority: i32) -> bool {
        self.priorities.range(..priority).next().is_some()
    }

    pub(crate) fn put(&mut self, pod: Assigned) -> u32 {
        let id = Arc::clone(&pod.id);
        let node = self.nodes.at_mut(pod.node);
        node.ports.extend(pod.need.ports.named.iter().cloned());
        node.requested.add(&pod.need.amounts);
        node.scored[0] += pod.need.scored[0];
        node.scored[1] += pod.need.scored[1];
        self.census.add(&pod.need, pod.terminating, pod.node);
        self.storage.add_user(&pod.need, pod.node);
        self.nodes.touch(pod.node, false);
        *self.priorities.entry(pod.need.priority).or_default() += 1;
        let place = pod.node;
        let at = self.pods.insert(pod);
        self.nodes.at_mut(place).pods.push(at);
        self.by_id.insert(id, at);
        at
    }

    pub(crate) fn drop_pod(&mut self, at: u32) {
        let Some(pod) = self.pods.remove(at) else { return };
        self.by_id.remove(&pod.id);
        if let Some(count) = self.priorities.get_mut(&pod.need.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&pod.need.priority);
            }
        }
        self.census.remove(&pod.need, pod.terminating, pod.node);
        self.storage.remove_user(&pod.need, pod.node);
        let node = self.nodes.at_mut(pod.node);
        node.pods.retain(|other| *other != at);
        for port in &pod.need.ports.named {
            if let Some(at) = node.ports.iter().position(|used| used == port) {
                node.ports.swap_remove(at);
            }
        }
        subtract(&mut node.requested, &pod.need.amounts);
        node.scored[0] -= pod.need.scored[0];
        node.scored[1] -= pod.need.scored[1];
        self.nodes.touch(pod.node, false);
    }

    pub(crate) fn give_back(&mut self, node: u32, taken: Taken) {
        self.nodes.at_mut(node).give_back(taken);
        self.nodes.touch(node, false);
    }

    /// Works with the class of a need, brought up to date.
    pub(crate) fn with_class<T>(&mut self, need: &Arc<Need>, work: impl FnOnce(&mut Class, World<'_>) -> T) -> T {
        self.uses += 1;
        let key = Arc::as_ptr(need).addr();
        let (nodes, nominees, storage) = (&self.nodes, &self.nominees, &self.storage);
        let comparisons = self.policy.comparison_tolerations;
        let own = need.strategy.and_then(|strategy| self.choosers.get(strategy.name()));
        let chooser = own.unwrap_or(&self.default).as_ref();
        let known = self.classes.get_mut(&key);
        let current = known.is_some_and(|class| {
            class.catch_up(World { nodes, census: &self.census, nominees, storage, chooser, comparisons })
        });
        if !current {
            let rest = (nominees, storage, chooser, comparisons);
            if let Some(old) = self.classes.insert(key, Class::new(need, nodes, &mut self.census, rest)) {
                old.end(&mut self.census);
            }
        }
        let world = World { nodes, census: &self.census, nominees, storage, chooser, comparisons };
        let class = self.classes.get_mut(&key).expect("it was made above");
        class.used = self.uses;
        let instances = need.owner.as_ref().and_then(|owner| self.instances.get(owner));
        class.set_instances(instances.copied().unwrap_or(0), world);
        let result = work(class, world);
        if !current {
            self.limit_classes();
        }
        result
    }

    /// Nothing waits: what was remembered to place faster is forgotten.
    pub fn rest(&mut self) {
        if self.classes.is_empty() {
            return;
        }
        for class in std::mem::take(&mut self.classes).into_values() {
            class.end(&mut self.census);
        }
        self.sweep_needs();
    }

    /// Ends the classes used least when they are too many.
    fn limit_classes(&mut self) {
        let most = (REMEMBERED / self.nodes.bound().max(1)).max(FEWEST_CLASSES);
        if self.classes.len() <= most {
            return;
        }
        // A quarter at once, so that this is rare.
        let by_use: BTreeSet<(u64, usize)> = self.classes.iter().map(|(key, class)| (class.used, *key)).collect();
        for (_, key) in by_use.into_iter().take(most / 4 + 1) {
            if let Some(class) = self.classes.remove(&key) {
                class.end(&mut self.census);
            }
        }
    }
}

fn subtract(from: &mut crate::Amounts, less: &crate::Amounts) {
    from.milli_cpu -= less.milli_cpu;
    from.memory_bytes -= less.memory_bytes;
    for (name, amount) in &less.other {
        if let Some(have) = from.other.get_mut(name) {
            *have -= amount;
            if *have == 0 {
                from.other.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_needs_are_never_more_than_those_in_use_or_a_few() {
        let mut engine = Engine::new(Policy::default());
        let mut used = Vec::new();
        for number in 0..8 * FEW_NEEDS {
            let need = engine.share(Need { namespace: format!("n{number}"), ..Need::default() });
            if number % 3 == 0 {
                used.push(need);
            }
            assert!(
                engine.shared.len() <= FEW_NEEDS.max(2 * used.len() + 1),
                "{} of {}",
                engine.shared.len(),
                used.len()
            );
        }
        assert!(used.iter().all(|need| engine.shared.contains_key(need)));
    }
}
