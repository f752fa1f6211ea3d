//! ReplicaSets and ReplicationControllers: as many pods as wanted, no more.
//!
//! Pods are adopted when the selector matches and nobody controls them, and released when it no longer does. The
//! caller keeps expectations: while pods that were asked for were not seen yet, `may_scale` is false.

mod rank;
mod set;
mod status;

pub(crate) use set::Set;

use crate::core::{Action, Plan, PodView, Resource, controller_reference};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// At most so many pods are created or deleted in one go.
const BURST: usize = 500;

/// `pods` are all pods of the set's namespace; `failure` is why the last creation failed.
pub(crate) fn reconcile(set: &Set, pods: &[&PodView], may_scale: bool, failure: Option<&str>, now: Timestamp) -> Plan {
    let mine = |pod: &&&PodView| pod.controller_uid() == Some(set.uid.as_str());
    let mut actions = Vec::new();
    let mut active: Vec<&PodView> = Vec::new();
    for pod in pods.iter().filter(mine).filter(|pod| pod.is_active()) {
        if set.selector.matches(&pod.labels) {
            active.push(pod);
        } else {
            actions.push(release(set, pod));
        }
    }
    if !set.deleting {
        let free = pods.iter().filter(|pod| pod.controller_uid().is_none() && pod.is_active());
        for pod in free.filter(|pod| set.selector.matches(&pod.labels)) {
            actions.push(adopt(set, pod));
            active.push(pod);
        }
        if may_scale {
            let related: Vec<&PodView> = pods.iter().filter(mine).copied().collect();
            actions.extend(scale(set, &active, &related));
        }
    }
    actions.extend(status::change(set, &active, failure, now));
    Plan { actions, recheck: next_available(set, &active, now) }
}

fn scale(set: &Set, active: &[&PodView], related: &[&PodView]) -> Vec<Action> {
    let have = active.len();
    if have < set.replicas {
        let create = create(set);
        return vec![create; (set.replicas - have).min(BURST)];
    }
    let surplus = (have - set.replicas).min(BURST);
    let ranked = rank::first_to_go(active, related);
    ranked.into_iter().take(surplus).map(delete).collect()
}

fn create(set: &Set) -> Action {
    let template = |at: &str| set.template.pointer(at).cloned().unwrap_or_default();
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", set.name),
            "namespace": set.namespace,
            "labels": template("/metadata/labels"),
            "annotations": template("/metadata/annotations"),
            "finalizers": template("/metadata/finalizers"),
            "ownerReferences": [set.reference()],
        },
        "spec": template("/spec"),
    });
    Action::Create { resource: Resource::pods(), namespace: set.namespace.clone(), object: without_nulls(object) }
}

fn without_nulls(mut object: Value) -> Value {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    object
}

fn delete(pod: &PodView) -> Action {
    Action::Delete {
        resource: Resource::pods(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        propagation: None,
    }
}

fn adopt(set: &Set, pod: &PodView) -> Action {
    let mut owners = pod.owners.clone();
    owners.push(controller_reference(&set.resource, &set.name, &set.uid));
    own(pod, &owners)
}

fn release(set: &Set, pod: &PodView) -> Action {
    let owners: Vec<Value> = pod.owners.iter().filter(|owner| owner["uid"] != json!(set.uid)).cloned().collect();
    own(pod, &owners)
}

fn own(pod: &PodView, owners: &[Value]) -> Action {
    let metadata = json!({"uid": pod.uid, "resourceVersion": pod.resource_version, "ownerReferences": owners});
    Action::Patch {
        resource: Resource::pods(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        subresource: None,
        patch: json!({"metadata": metadata}),
    }
}

/// When the next ready pod will have been ready for long enough.
fn next_available(set: &Set, active: &[&PodView], now: Timestamp) -> Option<Duration> {
    let left = active.iter().filter(|pod| !pod.is_available(set.min_ready, now)).filter_map(|pod| pod.ready_since);
    let seconds = left.map(|since| since.as_second() + set.min_ready - now.as_second()).min()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1)))
}

#[cfg(test)]
mod tests;
