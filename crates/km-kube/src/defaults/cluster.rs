//! Defaults of namespaces, nodes, secrets, storage, priorities and bindings of roles.

use super::field::{child, default, default_text, existing, items, missing, set, text};
use base64::Engine;
use serde_json::{Value, json};

pub(super) fn namespace(object: &mut Value) {
    let metadata = child(object, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        set(child(metadata, "labels"), "kubernetes.io/metadata.name", name);
    }
    default(child(object, "spec"), "finalizers", json!([crate::keys::NAMESPACE_FINALIZER]));
    default_text(child(object, "status"), "phase", "Active");
}

pub(super) fn node(object: &mut Value) {
    child(object, "spec");
    let status = child(object, "status");
    if let Some(capacity) = existing(status, "capacity").map(|capacity| capacity.clone()) {
        default(status, "allocatable", capacity);
    }
}

/// `stringData` is only for writing: it is moved into `data`.
pub(super) fn secret(object: &mut Value) {
    default_text(object, "type", "Opaque");
    let Some(texts) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    for (key, value) in texts.as_object().into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        set(child(object, "data"), key, encoded);
    }
}

pub(super) fn limit_range(object: &mut Value) {
    for item in existing(object, "spec").into_iter().flat_map(|spec| items(spec, "limits")) {
        if text(item, "type") != "Container" {
            continue;
        }
        // A missing default limit is the maximum; a missing default request the default limit, else the minimum.
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(amounts) = existing(item, from).map(|amounts| amounts.clone()) else { continue };
            for (name, amount) in amounts.as_object().into_iter().flatten() {
                default(child(item, to), name, amount.clone());
            }
        }
    }
}

pub(super) fn persistent_volume(object: &mut Value) {
    let spec = child(object, "spec");
    default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_text(spec, "volumeMode", "Filesystem");
    if let Some(host_path) = existing(spec, "hostPath") {
        default(host_path, "type", "");
    }
    // No class and the class without a name are the same, unlike with claims.
    if spec.get("storageClassName").is_some_and(|class| class == "")
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("storageClassName");
    }
    default_text(child(object, "status"), "phase", "Pending");
}

pub(super) fn persistent_volume_claim(object: &mut Value) {
    default_text(child(object, "spec"), "volumeMode", "Filesystem");
    default_text(child(object, "status"), "phase", "Pending");
}

pub(super) fn role_binding(object: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    default_text(child(object, "roleRef"), "apiGroup", RBAC);
    for subject in items(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default_text(subject, "apiGroup", RBAC);
        }
    }
}

pub(super) fn priority_class(object: &mut Value) {
    default_text(object, "preemptionPolicy", "PreemptLowerPriority");
}

pub(super) fn storage_class(object: &mut Value) {
    default_text(object, "reclaimPolicy", "Delete");
    default_text(object, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(object: &mut Value) {
    let spec = child(object, "spec");
    default(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default(spec, name, false);
    }
    default_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if missing(spec, "volumeLifecycleModes") {
        default(spec, "volumeLifecycleModes", json!(["Persistent"]));
    }
}
