//! The state machine of the controller manager.

use super::expectations::Expectations;
use super::queue::Queue;
use super::{Action, Key, Outcome, Plan, PodView, Resource, World};
use crate::garbage::Graph;
use crate::namespaces::Progress;
use crate::{accounts, deployment, endpoints, garbage, namespaces, replicas, storage};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often a set is looked at that waits for its pods to be seen: an event may have been lost.
const EXPECTATION_RECHECK: Duration = Duration::from_secs(30);

/// What does not change while it runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Endpoints hold host addresses and host ports instead of pod addresses and container ports.
    pub host_port_endpoints: bool,
    /// PEM of the cluster's certificate authority, for `kube-root-ca.crt`.
    pub root_ca: Option<String>,
    /// Seed of the jitter of retries.
    pub seed: u64,
}

/// What the shell tells. Within one resource events come in the order of the watch; a repeated `Seen` is harmless.
#[derive(Clone, Debug)]
pub enum Event {
    /// The resources of the API server that can be listed and deleted. May come again when it serves more.
    Resources(Vec<Resource>),
    /// An object was added or changed, or was there at start.
    Seen(Resource, Value),
    /// An object went away; as it was last.
    Gone(Resource, Value),
    /// The first list of a resource is complete.
    Synced(Resource),
}

/// What a run is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    ReplicaSet(Key),
    ReplicationController(Key),
    Deployment(Key),
    Endpoints(Key),
    Namespace(String),
    Accounts(String),
    /// A persistent volume claim.
    Claim(Key),
    /// Name of a persistent volume.
    Volume(String),
    /// Uid of an object whose owners are in question.
    Garbage(String),
}

/// Actions to carry out; report what came of each with [`Manager::finish`].
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    pub task: Task,
    pub actions: Vec<Action>,
}

/// See the module.
pub struct Manager {
    pub(super) config: Config,
    pub(super) world: World,
    pub(super) graph: Graph,
    pub(super) queue: Queue<Task>,
    pub(super) expectations: Expectations<Task>,
    pub(super) resources: Vec<Resource>,
    pub(super) unsynced: BTreeSet<Resource>,
    pub(super) running: BTreeMap<Task, Vec<Action>>,
    /// How far the deletion of a namespace's content is.
    pub(super) progress: BTreeMap<String, Progress>,
    /// Whether an owner was found in the API, by the uid of the owner.
    pub(super) owners_found: BTreeMap<String, bool>,
    /// Why the last creation of a replica failed.
    pub(super) create_failures: BTreeMap<Task, String>,
    /// By volume the uid of its claim, once the API server said that the claim is gone.
    pub(super) lost_claims: BTreeMap<String, String>,
    /// The last event about a claim or volume: the same isn't told twice.
    pub(super) told: BTreeMap<Task, Value>,
}

impl Manager {
    #[must_use]
    pub fn new(config: Config) -> Self {
        let seed = config.seed;
        Self {
            config,
            world: World::default(),
            graph: Graph::default(),
            queue: Queue::new(seed),
            expectations: Expectations::new(),
            resources: Vec::new(),
            unsynced: Resource::essential().into_iter().collect(),
            running: BTreeMap::new(),
            progress: BTreeMap::new(),
            owners_found: BTreeMap::new(),
            create_failures: BTreeMap::new(),
            lost_claims: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// Resources whose first list is still missing; no work is given out before there are none.
    #[must_use]
    pub fn missing_lists(&self) -> Vec<String> {
        self.unsynced.iter().map(|resource| resource.plural.clone()).collect()
    }

    /// Takes in what a watch showed.
    pub fn observe(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::Resources(resources) => self.resources = resources,
            Event::Synced(resource) => {
                self.unsynced.remove(&resource);
            }
            Event::Seen(resource, object) => self.seen(now, &resource, object),
            Event::Gone(resource, object) => self.gone(now, &resource, &object),
        }
    }

    /// When [`Self::work`] has something next, if nothing else happens.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        if self.unsynced.is_empty() { self.queue.wakes_at() } else { None }
    }

    /// The next piece of work that is due. Several may be under way, each of another task.
    pub fn work(&mut self, now: Timestamp) -> Option<Work> {
        if !self.unsynced.is_empty() {
            return None;
        }
        loop {
            let task = self.queue.next(now)?;
            let plan = self.plan(&task, now);
            if let Some(recheck) = plan.recheck {
                self.queue.add(&task, now + recheck);
            }
            if plan.actions.is_empty() {
                self.queue.done(&task, true, now);
                continue;
            }
            self.running.insert(task.clone(), plan.actions.clone());
            return Some(Work { task, actions: plan.actions });
        }
    }

    fn plan(&mut self, task: &Task, now: Timestamp) -> Plan {
        match task {
            Task::ReplicaSet(key) => self.replicas(task, &Resource::replica_sets(), key, now),
            Task::ReplicationController(key) => self.replicas(task, &Resource::replication_controllers(), key, now),
            Task::Deployment(key) => deployment::reconcile(&self.world, key, now),
            Task::Endpoints(key) => endpoints::reconcile(&self.world, key, self.config.host_port_endpoints),
            Task::Namespace(name) => {
                let plan = namespaces::reconcile(&self.world, name, self.progress.get(name), &self.resources);
                if plan.actions.is_empty() {
                    // Everything is on its way out: what was listed is old when we look again.
                    self.progress.remove(name);
                }
                plan
            }
            Task::Accounts(name) => accounts::reconcile(&self.world, name, self.config.root_ca.as_deref()),
            Task::Claim(key) => {
                let plan = storage::reconcile_claim(&self.world, key, now);
                self.untold(task, plan)
            }
            Task::Volume(name) => {
                let lost = self.lost_claims.get(name).map(String::as_str);
                let plan = storage::reconcile_volume(&self.world, name, lost, now);
                self.untold(task, plan)
            }
            Task::Garbage(uid) => garbage::reconcile(&self.graph, uid, &self.owners_found, &self.resources),
        }
    }

    fn replicas(&mut self, task: &Task, resource: &Resource, key: &Key, now: Timestamp) -> Plan {
        let Some(object) = self.world.get(resource, key) else {
            self.expectations.forget(task);
            self.create_failures.remove(task);
            return Plan::default();
        };
        let Some(set) = replicas::Set::read(resource, object) else { return Plan::default() };
        let pods: Vec<&PodView> = self.world.pods_within(&key.namespace).collect();
        let may_scale = self.expectations.met(task, now);
        let failure = self.create_failures.get(task).map(String::as_str);
        let plan = replicas::reconcile(&set, &pods, may_scale, failure, now);
        let creates = plan.actions.iter().filter(|action| is_pod_creation(action)).count();
        let deletes = plan.actions.iter().filter_map(|action| match action {
            Action::Delete { uid, .. } => Some(uid.clone()),
            _ => None,
        });
        self.expectations.expect(task, creates, deletes, now);
        if may_scale { plan } else { Plan { recheck: plan.recheck.or(Some(EXPECTATION_RECHECK)), ..plan } }
    }

    /// What came of the actions of a work, in their order.
    pub fn finish(&mut self, now: Timestamp, task: &Task, outcomes: Vec<Outcome>) {
        let actions = self.running.remove(task).unwrap_or_default();
        let mut succeeded = true;
        for (action, outcome) in actions.iter().zip(outcomes) {
            succeeded &= self.take_outcome(now, task, action, outcome);
        }
        self.next_step(now, task, &actions, succeeded);
        self.queue.done(task, succeeded, now);
    }
}

pub(super) fn is_pod_creation(action: &Action) -> bool {
    matches!(action, Action::Create { resource, .. } if resource.plural == "pods")
}
