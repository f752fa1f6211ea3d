//! The reclaim policy of a volume whose claim is gone.

use super::{annotation, binding, event};
use crate::core::{Action, Resource, text};
use jiff::Timestamp;
use km_kube::keys::PROVISIONED_BY;
use serde_json::Value;

/// Provisioners of this prefix are parts of Kubernetes itself, and not here.
const BUILT_IN: &str = "kubernetes.io/";

pub(super) fn is_to_be_deleted(volume: &Value) -> bool {
    text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete"
}

/// The next step of a volume without claim. It is released first; whoever provisioned it deletes it then, if it is to be
/// deleted. What nobody here can do makes it `Failed`, and says what would help.
pub(super) fn released(volume: &Value, now: Timestamp) -> Vec<Action> {
    let phase = text(volume, "/status/phase");
    if phase == "Failed" {
        return Vec::new();
    }
    if phase != "Released" {
        return binding::volume_phase(volume, "Released", None, now).into_iter().collect();
    }
    let maker = annotation(volume, PROVISIONED_BY);
    let outside = !maker.is_empty() && !maker.starts_with(BUILT_IN);
    let (reason, why) = match text(volume, "/spec/persistentVolumeReclaimPolicy") {
        "Delete" if outside => return Vec::new(),
        "Delete" => (
            "VolumeFailedDelete",
            "no deletable volume plugin matched: nobody here deletes what is behind a volume that was made by hand; remove \
             the data and the PersistentVolume, or set persistentVolumeReclaimPolicy to Retain before its claim goes",
        ),
        "Recycle" => (
            "VolumeFailedRecycle",
            "no recycler plugin found for the volume: remove the data and the claimRef by hand, and set \
             persistentVolumeReclaimPolicy to Retain",
        ),
        _ => return Vec::new(),
    };
    let failed = binding::volume_phase(volume, "Failed", Some(why), now);
    failed.into_iter().chain([event(&Resource::volumes(), volume, "Warning", reason, why, now)]).collect()
}
