//! The status of a set.

use super::Set;
use crate::core::{Action, PodView, labels_at};
use jiff::Timestamp;
use serde_json::{Value, json};

const FAILURE: &str = "ReplicaFailure";

/// The write that makes the status true, if it is not.
pub(super) fn change(set: &Set, active: &[&PodView], failure: Option<&str>, now: Timestamp) -> Option<Action> {
    let labels = labels_at(&set.template, "/metadata/labels");
    let labeled = |pod: &&&PodView| labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
    let wanted = json!({
        "replicas": active.len(),
        "fullyLabeledReplicas": active.iter().filter(labeled).count(),
        "readyReplicas": active.iter().filter(|pod| pod.is_ready()).count(),
        "availableReplicas": active.iter().filter(|pod| pod.is_available(set.min_ready, now)).count(),
        "observedGeneration": set.generation,
        "conditions": conditions(set, active, failure, now),
    });
    let same = wanted.as_object()?.iter().all(|(name, value)| {
        let have = set.status.get(name).unwrap_or(&Value::Null);
        have == value || (have.is_null() && (value == &json!(0) || value == &json!([])))
    });
    // A new set has an empty status; the first write says that it was seen.
    if same && (set.generation == 0 || set.status.get("observedGeneration").is_some()) {
        return None;
    }
    Some(Action::Patch {
        resource: set.resource.clone(),
        namespace: set.namespace.clone(),
        name: set.name.clone(),
        subresource: Some("status"),
        patch: json!({"metadata": {"uid": set.uid}, "status": wanted}),
    })
}

fn conditions(set: &Set, active: &[&PodView], failure: Option<&str>, now: Timestamp) -> Vec<Value> {
    let have = set.status["conditions"].as_array().cloned().unwrap_or_default();
    let (failing, mut others): (Vec<Value>, Vec<Value>) =
        have.into_iter().partition(|condition| condition["type"] == json!(FAILURE));
    if let Some(message) = failure.filter(|_| active.len() < set.replicas) {
        let since = failing.first().map_or_else(|| json!(seconds(now)), |old| old["lastTransitionTime"].clone());
        others.push(json!({
            "type": FAILURE, "status": "True", "reason": "FailedCreate", "message": message,
            "lastTransitionTime": since,
        }));
    }
    others
}

/// As the API writes times.
fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
