//! The writes that bind a claim and a volume.

use super::{annotation, is_reserved_for, patch, seconds};
use crate::core::{Action, Resource, text};
use jiff::Timestamp;
use km_kube::keys::{BIND_COMPLETED, BOUND_BY_CONTROLLER};
use serde_json::{Value, json};

/// Brings volume and claim one step nearer to each other; none when both say so already.
pub(super) fn step(volume: &Value, claim: &Value) -> Option<Action> {
    if !is_reserved_for(volume, claim) || text(volume, "/spec/claimRef/uid").is_empty() {
        return Some(reserve(volume, claim));
    }
    let name = text(volume, "/metadata/name");
    let chosen = text(claim, "/spec/volumeName").is_empty();
    if !chosen && !annotation(claim, BIND_COMPLETED).is_empty() {
        return status(volume, claim);
    }
    let mut annotations = json!({BIND_COMPLETED: "yes"});
    if chosen {
        annotations[BOUND_BY_CONTROLLER] = json!("yes");
    }
    let change = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
    Some(patch(Resource::claims(), claim, None, change))
}

fn reserve(volume: &Value, claim: &Value) -> Action {
    let mut change = json!({"spec": {"claimRef": {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": text(claim, "/metadata/namespace"), "name": text(claim, "/metadata/name"),
        "uid": text(claim, "/metadata/uid"), "resourceVersion": text(claim, "/metadata/resourceVersion"),
    }}});
    // What a user reserved by name stays reserved by name when the claim is gone.
    if text(volume, "/spec/claimRef/name").is_empty() {
        change["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
    }
    patch(Resource::volumes(), volume, None, change)
}

fn status(volume: &Value, claim: &Value) -> Option<Action> {
    if text(claim, "/status/phase") == "Bound" {
        return None;
    }
    let status = json!({"status": {
        "phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"],
    }});
    Some(patch(Resource::claims(), claim, Some("status"), status))
}

/// Gives a volume free that its claim doesn't use. A reservation by hand stays.
pub(super) fn unbind(volume: &Value) -> Action {
    let change = if annotation(volume, BOUND_BY_CONTROLLER).is_empty() {
        json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}})
    } else {
        json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}})
    };
    patch(Resource::volumes(), volume, None, change)
}

/// The phase of a claim; none when it has it.
pub(super) fn claim_phase(claim: &Value, phase: &str) -> Option<Action> {
    let change = json!({"status": {"phase": phase}});
    (text(claim, "/status/phase") != phase).then(|| patch(Resource::claims(), claim, Some("status"), change))
}

/// The phase of a volume with what is to be said about it; none when it has it.
pub(super) fn volume_phase(volume: &Value, phase: &str, message: Option<&str>, now: Timestamp) -> Option<Action> {
    let change = json!({"status": {
        "phase": phase, "message": message, "lastPhaseTransitionTime": seconds(now),
    }});
    (text(volume, "/status/phase") != phase).then(|| patch(Resource::volumes(), volume, Some("status"), change))
}
