//! Defaults of controllers of pods.

use super::field::{child, default, default_text, existing, items, missing, set, text};
use super::pod::template;
use serde_json::{Value, json};

pub(super) fn replication_controller(object: &mut Value) {
    let spec = child(object, "spec");
    default(spec, "replicas", 1);
    template(spec);
    let labels = spec.pointer("/template/metadata/labels").cloned().unwrap_or_default();
    if labels.as_object().is_none_or(serde_json::Map::is_empty) {
        return;
    }
    if spec.get("selector").is_none_or(|selector| selector == &json!({}) || selector.is_null()) {
        set(spec, "selector", labels.clone());
    }
    default(child(object, "metadata"), "labels", labels);
}

pub(super) fn replica_set(object: &mut Value) {
    let spec = child(object, "spec");
    default(spec, "replicas", 1);
    template(spec);
}

pub(super) fn deployment(object: &mut Value) {
    let spec = child(object, "spec");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    let strategy = child(spec, "strategy");
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
    template(spec);
}

pub(super) fn stateful_set(object: &mut Value) {
    let spec = child(object, "spec");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default_text(spec, "podManagementPolicy", "OrderedReady");
    let strategy = child(spec, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        default(child(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    default_text(retention, "whenDeleted", "Retain");
    default_text(retention, "whenScaled", "Retain");
    for claim in items(spec, "volumeClaimTemplates") {
        default_text(claim, "apiVersion", "v1");
        default_text(claim, "kind", "PersistentVolumeClaim");
        default_text(child(claim, "spec"), "volumeMode", "Filesystem");
        default_text(child(claim, "status"), "phase", "Pending");
    }
    template(spec);
}

pub(super) fn daemon_set(object: &mut Value) {
    let spec = child(object, "spec");
    default(spec, "revisionHistoryLimit", 10);
    let strategy = child(spec, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        if missing(rolling, "maxUnavailable") && missing(rolling, "maxSurge") {
            default(rolling, "maxUnavailable", 1);
        }
        default(rolling, "maxSurge", 0);
        default(rolling, "maxUnavailable", 0);
    }
    template(spec);
}

pub(super) fn autoscaler(object: &mut Value) {
    if let Some(spec) = existing(object, "spec") {
        default(spec, "minReplicas", 1);
    }
}
