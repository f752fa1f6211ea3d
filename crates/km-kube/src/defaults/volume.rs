//! Defaults of volumes.

use super::field::{child, default, default_text, existing, items};
use serde_json::Value;

/// Mode 0644 of files from objects.
const FILE_MODE: i32 = 0o644;

pub(super) fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|fields| fields.iter().all(|(name, value)| name == "name" || value.is_null())) {
        child(volume, "emptyDir");
        return;
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing(volume, name) {
            default(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(host_path) = existing(volume, "hostPath") {
        default(host_path, "type", "");
    }
    if let Some(downward) = existing(volume, "downwardAPI") {
        downward_items(downward);
    }
    if let Some(projected) = existing(volume, "projected") {
        for source in items(projected, "sources") {
            if let Some(token) = existing(source, "serviceAccountToken") {
                default(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = existing(source, "downwardAPI") {
                downward_items(downward);
            }
        }
    }
    let claim = existing(volume, "ephemeral").and_then(|source| existing(source, "volumeClaimTemplate"));
    if let Some(claim) = claim {
        default_text(child(claim, "spec"), "volumeMode", "Filesystem");
    }
}

fn downward_items(source: &mut Value) {
    for item in items(source, "items") {
        if let Some(field_ref) = existing(item, "fieldRef") {
            default_text(field_ref, "apiVersion", "v1");
        }
    }
}
