//! Revisions: which roll-out a replica set belongs to, and how many old ones are kept.

use super::replica_set::{DESIRED, HISTORY, MAX, ReplicaSet};
use super::{State, hash};
use crate::core::{Action, Key, Resource, World, integer};
use km_kube::keys::{DEPLOYMENT_REVISION, POD_TEMPLATE_HASH};
use serde_json::{Map, Value, json};

/// Annotations of the deployment that its replica sets don't get.
const OWN_ANNOTATIONS: [&str; 5] =
    ["kubectl.kubernetes.io/last-applied-configuration", DEPLOYMENT_REVISION, HISTORY, DESIRED, MAX];

/// The revision that the set of the current template must have: one more than any other.
fn current(state: &State<'_>) -> i64 {
    state.old_sets().map(ReplicaSet::revision).max().unwrap_or(0) + 1
}

/// Makes the replica set of the current template.
pub(super) fn create_new(state: &State<'_>, replicas: i64, world: &World, key: &Key) -> Vec<Action> {
    let deployment = state.deployment;
    let collisions = integer(&deployment.status, "/collisionCount").unwrap_or(0);
    let hash = hash::template_hash(&deployment.template, collisions);
    let name = format!("{}-{hash}", deployment.name);
    let resource = Resource::replica_sets();
    if world.get(&resource, &Key::new(&key.namespace, &name)).is_some() {
        // Another template has the same hash, or somebody else made a set of this name: take the next name.
        return vec![patch(
            state,
            &Resource::deployments(),
            &deployment.name,
            Some("status"),
            json!({
                "metadata": {"uid": deployment.uid},
                "status": {"collisionCount": collisions + 1},
            }),
        )];
    }
    let mut template = deployment.template.clone();
    set_label(&mut template, "/metadata", &hash);
    let mut selector = deployment.selector_object.clone();
    selector["matchLabels"][POD_TEMPLATE_HASH] = json!(hash);
    let mut annotations: Map<String, Value> = inherited(state);
    annotations.insert(DEPLOYMENT_REVISION.to_owned(), json!(current(state).to_string()));
    annotations.insert(DESIRED.to_owned(), json!(deployment.replicas.to_string()));
    annotations.insert(MAX.to_owned(), json!(deployment.max_total().to_string()));
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [deployment.reference()],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.min_ready,
            "selector": selector,
            "template": template,
        },
    });
    let mut actions = vec![Action::Create { resource, namespace: deployment.namespace.clone(), object }];
    actions.extend(mark_deployment(state, current(state)));
    actions
}

/// Brings the annotations of the current set and of the deployment up to date: after a roll-back the old set becomes
/// the newest revision again.
pub(super) fn mark_current(state: &State<'_>, new: &ReplicaSet) -> Vec<Action> {
    let wanted = current(state);
    let mut actions = Vec::new();
    let mut annotations = Map::new();
    if new.revision() < wanted {
        annotations.insert(DEPLOYMENT_REVISION.to_owned(), json!(wanted.to_string()));
        if new.revision() > 0 {
            let before = new.annotations.get(HISTORY).map(|history| format!("{history},")).unwrap_or_default();
            annotations.insert(HISTORY.to_owned(), json!(format!("{before}{}", new.revision())));
        }
    }
    for (name, value) in inherited(state) {
        if new.annotations.get(&name).map(String::as_str) != value.as_str() {
            annotations.insert(name, value);
        }
    }
    let mut change = json!({});
    if !annotations.is_empty() {
        change["metadata"]["annotations"] = Value::Object(annotations);
    }
    if new.min_ready != state.deployment.min_ready {
        change["spec"]["minReadySeconds"] = json!(state.deployment.min_ready);
    }
    if change != json!({}) {
        change["metadata"]["uid"] = json!(new.uid);
        change["metadata"]["resourceVersion"] = json!(new.resource_version);
        actions.push(patch(state, &Resource::replica_sets(), &new.name, None, change));
    }
    actions.extend(mark_deployment(state, wanted.max(new.revision())));
    actions
}

fn mark_deployment(state: &State<'_>, revision: i64) -> Option<Action> {
    let deployment = state.deployment;
    let text = revision.to_string();
    if deployment.annotations.get(DEPLOYMENT_REVISION) == Some(&text) {
        return None;
    }
    let change = json!({"metadata": {"uid": deployment.uid, "annotations": {DEPLOYMENT_REVISION: text}}});
    Some(patch(state, &Resource::deployments(), &deployment.name, None, change))
}

fn inherited(state: &State<'_>) -> Map<String, Value> {
    let own = state.deployment.annotations.iter().filter(|(name, _)| !OWN_ANNOTATIONS.contains(&name.as_str()));
    own.map(|(name, value)| (name.clone(), json!(value))).collect()
}

/// Deletes the oldest empty sets beyond the history limit, once the roll-out is complete.
pub(super) fn clean_up(state: &State<'_>) -> Vec<Action> {
    if !super::status::is_complete(state) {
        return Vec::new();
    }
    let empty = |set: &&ReplicaSet| set.replicas == 0 && set.actual == 0 && set.observed && !set.deleting;
    let mut old: Vec<&ReplicaSet> = state.old_sets().filter(empty).collect();
    old.sort_by_key(|set| (set.revision(), set.created));
    let surplus = old.len().saturating_sub(state.deployment.history_limit);
    let delete = |set: &ReplicaSet| Action::Delete {
        resource: Resource::replica_sets(),
        namespace: state.deployment.namespace.clone(),
        name: set.name.clone(),
        uid: set.uid.clone(),
        propagation: Some("Background"),
    };
    old.into_iter().take(surplus).map(delete).collect()
}

fn set_label(template: &mut Value, at: &str, hash: &str) {
    if let Some(metadata) = template.pointer_mut(at).filter(|metadata| metadata.is_object()) {
        if !metadata["labels"].is_object() {
            metadata["labels"] = json!({});
        }
        metadata["labels"][POD_TEMPLATE_HASH] = json!(hash);
    }
}

pub(super) fn patch(
    state: &State<'_>,
    resource: &Resource,
    name: &str,
    subresource: Option<&'static str>,
    patch: Value,
) -> Action {
    let namespace = state.deployment.namespace.clone();
    Action::Patch { resource: resource.clone(), namespace, name: name.to_owned(), subresource, patch }
}
