//! Garbage collection: what became of an object's dependents, and what becomes of an object without owners.
//!
//! Rules (Kubernetes docs, "Garbage Collection"):
//! - an object all of whose owners are gone is deleted; an owner counts as gone only when the API server said so;
//! - references to owners that are gone, or that wait for their dependents, are removed while another owner is left;
//! - an owner deleted in the foreground waits until no dependent blocks it; its dependents are deleted meanwhile;
//! - an owner deleted with orphaning has its references removed from its dependents first.

mod graph;

pub(crate) use graph::Graph;

use crate::core::{Action, Plan, Resource};
use graph::Node;
use km_kube::keys::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `found` says of owners that the watches did not show whether the API server has them.
pub(crate) fn reconcile(graph: &Graph, uid: &str, found: &BTreeMap<String, bool>, resources: &[Resource]) -> Plan {
    let Some(node) = graph.get(uid) else { return Plan::default() };
    let actions = if node.deleting { finish_deletion(graph, node) } else { judge(graph, node, found, resources) };
    Plan::new(actions)
}

/// An object that was asked to go and waits for us.
fn finish_deletion(graph: &Graph, node: &Node) -> Vec<Action> {
    if node.has_finalizer(ORPHAN_FINALIZER) {
        let dependents: Vec<&Node> = graph.dependents(&node.uid).collect();
        if dependents.is_empty() {
            return vec![without_finalizer(node, ORPHAN_FINALIZER)];
        }
        return dependents.into_iter().map(|dependent| without_owners(dependent, &[&node.uid])).collect();
    }
    if node.has_finalizer(FOREGROUND_FINALIZER) {
        let blocking: Vec<&Node> = graph.dependents(&node.uid).filter(|other| other.blocks(&node.uid)).collect();
        if blocking.is_empty() {
            return vec![without_finalizer(node, FOREGROUND_FINALIZER)];
        }
        let alive = blocking.into_iter().filter(|dependent| !dependent.deleting);
        return alive.filter_map(|dependent| delete_dependent(graph, dependent)).collect();
    }
    Vec::new()
}

/// Deletes an object whose owner waits for it, unless another owner still wants it.
fn delete_dependent(graph: &Graph, dependent: &Node) -> Option<Action> {
    let wanted = dependent.owners.iter().any(|owner| graph.get(&owner.uid).is_some_and(|owner| !owner.waits()));
    if wanted {
        let waiting: Vec<&str> = dependent
            .owners
            .iter()
            .map(|owner| owner.uid.as_str())
            .filter(|uid| graph.get(uid).is_some_and(Node::waits))
            .collect();
        return Some(without_owners(dependent, &waiting));
    }
    let has_dependents = graph.dependents(&dependent.uid).next().is_some();
    Some(delete(dependent, if has_dependents { "Foreground" } else { "Background" }))
}

/// A living object with owners: are they still there?
fn judge(graph: &Graph, node: &Node, found: &BTreeMap<String, bool>, resources: &[Resource]) -> Vec<Action> {
    let (mut solid, mut waiting, mut dangling, mut questions) = (0, Vec::new(), Vec::new(), Vec::new());
    for owner in &node.owners {
        match graph.get(&owner.uid) {
            Some(there) if there.waits() => waiting.push(owner.uid.as_str()),
            Some(_) => solid += 1,
            None => match found.get(&owner.uid) {
                Some(true) => solid += 1,
                Some(false) => dangling.push(owner.uid.as_str()),
                // An owner of a kind that the API server does not serve cannot be asked for: it stays.
                None => {
                    match resources.iter().find(|one| one.api_version() == owner.api_version && one.kind == owner.kind)
                    {
                        Some(resource) => questions.push(Action::Get {
                            resource: resource.clone(),
                            namespace: if resource.namespaced { node.namespace.clone() } else { String::new() },
                            name: owner.name.clone(),
                            uid: owner.uid.clone(),
                        }),
                        None => solid += 1,
                    }
                }
            },
        }
    }
    if !questions.is_empty() {
        return questions;
    }
    match (solid, waiting.is_empty(), dangling.is_empty()) {
        (0, true, true) => Vec::new(),
        (0, false, _) => delete_dependent(graph, node).into_iter().collect(),
        (0, true, false) => vec![delete(node, "Background")],
        (_, true, true) => Vec::new(),
        _ => {
            waiting.extend(dangling);
            vec![without_owners(node, &waiting)]
        }
    }
}

fn delete(node: &Node, propagation: &'static str) -> Action {
    // What an object's own deletion was to do to its dependents is kept.
    let propagation = if node.has_finalizer(ORPHAN_FINALIZER) { "Orphan" } else { propagation };
    Action::Delete {
        resource: node.resource.clone(),
        namespace: node.namespace.clone(),
        name: node.name.clone(),
        uid: node.uid.clone(),
        propagation: Some(propagation),
    }
}

fn without_owners(node: &Node, uids: &[&str]) -> Action {
    let left: Vec<&Value> =
        node.owners.iter().filter(|owner| !uids.contains(&owner.uid.as_str())).map(|owner| &owner.reference).collect();
    patch(node, json!({"ownerReferences": left}))
}

fn without_finalizer(node: &Node, finalizer: &str) -> Action {
    let left: Vec<&String> = node.finalizers.iter().filter(|other| *other != finalizer).collect();
    patch(node, json!({"finalizers": left}))
}

/// Guarded by uid and version: another object, or a changed one, is not touched.
fn patch(node: &Node, mut metadata: Value) -> Action {
    metadata["uid"] = json!(node.uid);
    metadata["resourceVersion"] = json!(node.resource_version);
    Action::Patch {
        resource: node.resource.clone(),
        namespace: node.namespace.clone(),
        name: node.name.clone(),
        subresource: None,
        patch: json!({"metadata": metadata}),
    }
}

#[cfg(test)]
mod tests;
