//! Persistent volumes and their claims: which volume a claim gets, what becomes of a volume whose claim is gone, and how
//! long either stays after its deletion was asked for.
//!
//! Rules (Kubernetes docs, "Persistent Volumes" and "Storage Classes"):
//! - a claim gets the volume that is reserved for it, else the smallest free one that fits;
//! - claims of a class with `WaitForFirstConsumer` are bound by the scheduler, which reserves a volume or names a node;
//! - the volume is written first (`claimRef`), then the claim (`volumeName`), then both phases: whoever is second finds the
//!   version changed and looks again, so no volume is given away twice;
//! - a claim counts as gone only when the API server said so.
//!
//! Each run writes each object once at most; the watch shows the result and leads to the next run.

mod binding;
mod claim;
mod fit;
mod reclaim;
#[cfg(test)]
mod tests;
mod volume;

pub(crate) use claim::reconcile as reconcile_claim;
pub(crate) use volume::reconcile as reconcile_volume;

use crate::core::{Action, Key, Resource, World, text};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Namespace of events about objects that are in none.
const CLUSTER_EVENTS: &str = "default";

/// A claim's key, as a volume's `claimRef` or an object's own metadata names it.
fn key_at(object: &Value, at: &str) -> Key {
    Key::new(text(object, &format!("{at}/namespace")), text(object, &format!("{at}/name")))
}

/// Whether the volume is reserved for the claim: by name, and by uid where it says one.
fn is_reserved_for(volume: &Value, claim: &Value) -> bool {
    let uid = text(volume, "/spec/claimRef/uid");
    key_at(volume, "/spec/claimRef") == key_at(claim, "/metadata")
        && (uid.is_empty() || uid == text(claim, "/metadata/uid"))
}

/// Whether a claim names a class whose volumes wait for the first pod.
fn is_delayed(world: &World, claim: &Value) -> bool {
    class_of(world, claim).is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer")
}

fn class_of<'a>(world: &'a World, claim: &Value) -> Option<&'a Value> {
    let name = text(claim, "/spec/storageClassName");
    world.get(&Resource::storage_classes(), &Key::new("", name))
}

fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

/// A merge patch of this very version of an object: a changed one is not touched.
fn patch(resource: Resource, object: &Value, subresource: Option<&'static str>, mut patch: Value) -> Action {
    for field in ["uid", "resourceVersion"] {
        patch["metadata"][field] = object["metadata"][field].clone();
    }
    Action::Patch {
        resource,
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        subresource,
        patch,
    }
}

/// Takes a finalizer off; none when it isn't there.
fn without_finalizer(resource: Resource, object: &Value, finalizer: &str) -> Option<Action> {
    let all = object.pointer("/metadata/finalizers").and_then(Value::as_array)?;
    let left: Vec<&Value> = all.iter().filter(|one| *one != finalizer).collect();
    (left.len() < all.len()).then(|| patch(resource, object, None, json!({"metadata": {"finalizers": left}})))
}

/// Tells people about an object.
fn event(resource: &Resource, object: &Value, severity: &str, reason: &str, message: &str, now: Timestamp) -> Action {
    let namespace = match text(object, "/metadata/namespace") {
        "" => CLUSTER_EVENTS,
        namespace => namespace,
    };
    let name = text(object, "/metadata/name");
    let time = seconds(now);
    let object = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": format!("{name}-"), "namespace": namespace},
        "involvedObject": {
            "apiVersion": resource.api_version(), "kind": resource.kind, "name": name,
            "namespace": text(object, "/metadata/namespace"), "uid": text(object, "/metadata/uid"),
        },
        "type": severity, "reason": reason, "message": message, "source": {"component": "persistentvolume-controller"},
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    Action::Create { resource: Resource::events(), namespace: namespace.to_owned(), object }
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
