//! Deployments: a new replica set per template, old ones scaled down as the strategy allows.
//!
//! Each run makes one kind of step (adopt, create, scale, clean up) and writes the status; what the step changes comes
//! back through the watch and leads to the next run. Replica sets have names made of the template's hash, so a run on
//! an old cache can create nothing twice.

mod hash;
mod replica_set;
mod revision;
mod rolling;
mod scale;
mod status;
mod view;

use crate::core::{Action, Key, Plan, PodView, Resource, World, controller_of, labels_at, owners, text};
use jiff::Timestamp;
use km_kube::selector::LabelSelector;
use replica_set::ReplicaSet;
use serde_json::{Value, json};
use view::{Deployment, Strategy};

pub(crate) fn reconcile(world: &World, key: &Key, now: Timestamp) -> Plan {
    let Some(deployment) = world.get(&Resource::deployments(), key).and_then(Deployment::read) else {
        return Plan::default();
    };
    let all: Vec<&Value> = world.within(&Resource::replica_sets(), &key.namespace).collect();
    let claims = claim(&deployment, &all);
    if !claims.is_empty() {
        return Plan::new(claims);
    }
    let mine = all.into_iter().filter(|object| owned_by(object, &deployment));
    let mut sets: Vec<ReplicaSet> = mine.map(ReplicaSet::read).collect();
    sets.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    let pods: Vec<&PodView> = world.pods_within(&key.namespace).collect();
    let state = State { deployment: &deployment, sets: &sets, new: newest(&deployment, &sets), now };
    let mut actions = if deployment.deleting { Vec::new() } else { state.step(&pods, world, key) };
    let (status, recheck) = status::change(&state);
    actions.extend(status);
    Plan { actions, recheck }
}

/// A deployment and its replica sets, oldest first; `new` is the index of the one with the current template.
struct State<'a> {
    deployment: &'a Deployment,
    sets: &'a [ReplicaSet],
    new: Option<usize>,
    now: Timestamp,
}

impl<'a> State<'a> {
    fn new_set(&self) -> Option<&'a ReplicaSet> {
        self.new.map(|index| &self.sets[index])
    }

    fn old_sets(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        let new = self.new;
        self.sets.iter().enumerate().filter(move |(index, _)| Some(*index) != new).map(|(_, set)| set)
    }

    /// Replicas that the specs of all sets ask for.
    fn total(&self) -> i64 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    fn step(&self, pods: &[&PodView], world: &World, key: &Key) -> Vec<Action> {
        if let Some(actions) = scale::after_resize(self) {
            return actions;
        }
        if self.deployment.paused {
            return Vec::new();
        }
        let steps = match self.deployment.strategy {
            Strategy::Recreate => self.recreate(pods, world, key),
            Strategy::RollingUpdate { .. } => self.roll(world, key),
        };
        if steps.is_empty() { revision::clean_up(self) } else { steps }
    }

    /// All old pods go before the first new one comes.
    fn recreate(&self, pods: &[&PodView], world: &World, key: &Key) -> Vec<Action> {
        let busy: Vec<&ReplicaSet> = self.old_sets().filter(|set| set.replicas > 0).collect();
        if !busy.is_empty() {
            return busy.into_iter().map(|set| scale::to(self, set, 0)).collect();
        }
        let old_pod_runs = pods
            .iter()
            .any(|pod| !pod.is_terminal() && self.old_sets().any(|set| pod.controller_uid() == Some(set.uid.as_str())));
        if old_pod_runs {
            return Vec::new();
        }
        match self.new_set() {
            None => revision::create_new(self, self.deployment.replicas, world, key),
            Some(new) => {
                let mut actions = revision::mark_current(self, new);
                if new.replicas != self.deployment.replicas {
                    actions.push(scale::to(self, new, self.deployment.replicas));
                }
                actions
            }
        }
    }

    fn roll(&self, world: &World, key: &Key) -> Vec<Action> {
        let Some(new) = self.new_set() else {
            let replicas = rolling::new_replicas(self, 0);
            return revision::create_new(self, replicas, world, key);
        };
        let marks = revision::mark_current(self, new);
        if !marks.is_empty() {
            return marks;
        }
        let wanted = rolling::new_replicas(self, new.replicas);
        if wanted != new.replicas {
            return vec![scale::to(self, new, wanted)];
        }
        rolling::scale_down_old(self, new)
    }
}

fn owned_by(object: &Value, deployment: &Deployment) -> bool {
    controller_of(owners(object)).is_some_and(|owner| owner["uid"] == json!(deployment.uid))
}

/// Adopts replica sets that match and that nobody controls; releases those that match no more.
fn claim(deployment: &Deployment, all: &[&Value]) -> Vec<Action> {
    let mut actions = Vec::new();
    for object in all {
        let matches = deployment.selector.matches(&labels_at(object, "/metadata/labels"));
        let mut references = owners(object).to_vec();
        if owned_by(object, deployment) {
            if matches {
                continue;
            }
            references.retain(|owner| owner["uid"] != json!(deployment.uid));
        } else if matches
            && controller_of(&references).is_none()
            && !deployment.deleting
            && text(object, "/metadata/deletionTimestamp").is_empty()
        {
            references.push(deployment.reference());
        } else {
            continue;
        }
        let metadata = json!({
            "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"],
            "ownerReferences": references,
        });
        actions.push(Action::Patch {
            resource: Resource::replica_sets(),
            namespace: deployment.namespace.clone(),
            name: text(object, "/metadata/name").to_owned(),
            subresource: None,
            patch: json!({"metadata": metadata}),
        });
    }
    actions
}

/// The oldest set whose template is the deployment's.
fn newest(deployment: &Deployment, sets: &[ReplicaSet]) -> Option<usize> {
    sets.iter().position(|set| hash::same_template(&set.template, &deployment.template))
}

/// Whether a selector can belong to a deployment.
fn usable(selector: &LabelSelector) -> bool {
    !selector.is_everything()
}
