//! Deleting a namespace: its content goes first, pods before all else; then the finalizer `kubernetes` is taken off.
//!
//! Nothing is taken from a cache here: the content is listed at the API server, and the finalizer goes only after every
//! list came back empty.

use crate::core::{Action, Key, Plan, Resource, World, text};
use km_kube::keys::NAMESPACE_FINALIZER;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the lists of this round showed, by resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    listed: BTreeMap<Resource, Vec<Found>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Found {
    name: String,
    uid: String,
    deleting: bool,
}

impl Progress {
    pub(crate) fn listed(&mut self, resource: &Resource, objects: &[Value]) {
        let found = objects.iter().map(|object| Found {
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            deleting: !text(object, "/metadata/deletionTimestamp").is_empty(),
        });
        self.listed.insert(resource.clone(), found.collect());
    }
}

/// The next step: list pods; delete them; list all else; delete it; take the finalizer off.
pub(crate) fn reconcile(world: &World, name: &str, progress: Option<&Progress>, resources: &[Resource]) -> Plan {
    let Some(namespace) = world.get(&Resource::namespaces(), &Key::new("", name)) else { return Plan::default() };
    let finalizers = namespace.pointer("/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let dying = !text(namespace, "/metadata/deletionTimestamp").is_empty();
    if !dying || !finalizers.contains(&json!(NAMESPACE_FINALIZER)) || resources.is_empty() {
        return Plan::default();
    }
    let nothing = Progress::default();
    let progress = progress.unwrap_or(&nothing);
    let pods = Resource::pods();
    let Some(found_pods) = progress.listed.get(&pods) else { return list(name, [&pods]) };
    if !found_pods.is_empty() {
        return delete(name, [(&pods, found_pods)]);
    }
    let others: Vec<&Resource> = resources.iter().filter(|one| one.namespaced && **one != pods).collect();
    let unlisted: Vec<&Resource> = others.iter().filter(|one| !progress.listed.contains_key(**one)).copied().collect();
    if !unlisted.is_empty() {
        return list(name, unlisted);
    }
    if progress.listed.values().any(|found| !found.is_empty()) {
        return delete(name, &progress.listed);
    }
    Plan::new(vec![finalize(namespace, name, finalizers)])
}

fn list<'a>(namespace: &str, resources: impl IntoIterator<Item = &'a Resource>) -> Plan {
    let one = |resource: &Resource| Action::List { resource: resource.clone(), namespace: namespace.to_owned() };
    Plan::new(resources.into_iter().map(one).collect())
}

/// Deletes what does not go already. While all of it is going, it is listed again later.
fn delete<'a>(namespace: &str, found: impl IntoIterator<Item = (&'a Resource, &'a Vec<Found>)>) -> Plan {
    let mut actions = Vec::new();
    let mut going = None;
    for (resource, objects) in found {
        for object in objects {
            if object.deleting {
                going = Some(resource);
                continue;
            }
            actions.push(Action::Delete {
                resource: resource.clone(),
                namespace: namespace.to_owned(),
                name: object.name.clone(),
                uid: object.uid.clone(),
                propagation: Some("Background"),
            });
        }
    }
    match going {
        Some(_) if actions.is_empty() => Plan { actions, recheck: Some(std::time::Duration::from_secs(1)) },
        _ => Plan::new(actions),
    }
}

fn finalize(namespace: &Value, name: &str, finalizers: Vec<Value>) -> Action {
    let mut object = namespace.clone();
    let left: Vec<Value> = finalizers.into_iter().filter(|finalizer| finalizer != NAMESPACE_FINALIZER).collect();
    object["spec"]["finalizers"] = json!(left);
    Action::Replace {
        resource: Resource::namespaces(),
        namespace: String::new(),
        name: name.to_owned(),
        subresource: Some("finalize"),
        object,
    }
}
