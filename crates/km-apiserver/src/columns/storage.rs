//! Volumes, claims, storage classes, drivers of nodes.

use km_kube::keys::DEFAULT_CLASS;
use serde_json::Value;

use super::{Column, age, at, list, name, size, text, wide};

/// What stands for a missing class of attributes or mode.
const UNSET: &str = "<unset>";

pub const VOLUMES: &[Column] = &[
    text("Name"),
    text("Capacity"),
    text("Access Modes"),
    text("Reclaim Policy"),
    text("Status"),
    text("Claim"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    text("Reason"),
    text("Age"),
    wide("VolumeMode"),
];

pub fn volume(object: &Value) -> Vec<Value> {
    let claim = match (at(object, "/spec/claimRef/namespace"), at(object, "/spec/claimRef/name")) {
        ("", "") => String::new(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![
        name(object),
        at(object, "/spec/capacity/storage").into(),
        modes(object, "/spec/accessModes").into(),
        at(object, "/spec/persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        at(object, "/spec/storageClassName").into(),
        or_unset(at(object, "/spec/volumeAttributesClassName")).into(),
        at(object, "/status/reason").into(),
        age(object),
        or_unset(at(object, "/spec/volumeMode")).into(),
    ]
}

pub const CLAIMS: &[Column] = &[
    text("Name"),
    text("Status"),
    text("Volume"),
    text("Capacity"),
    text("Access Modes"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    text("Age"),
    wide("VolumeMode"),
];

pub fn claim(object: &Value) -> Vec<Value> {
    let volume = at(object, "/spec/volumeName");
    // Before it is bound a claim has neither.
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => (at(object, "/status/capacity/storage"), modes(object, "/status/accessModes")),
    };
    vec![
        name(object),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        at(object, "/spec/storageClassName").into(),
        or_unset(at(object, "/spec/volumeAttributesClassName")).into(),
        age(object),
        or_unset(at(object, "/spec/volumeMode")).into(),
    ]
}

pub const CLASSES: &[Column] = &[
    text("Name"),
    text("Provisioner"),
    text("ReclaimPolicy"),
    text("VolumeBindingMode"),
    text("AllowVolumeExpansion"),
    text("Age"),
];

pub fn class(object: &Value) -> Vec<Value> {
    let mut shown = at(object, "/metadata/name").to_owned();
    if object["metadata"]["annotations"][DEFAULT_CLASS] == "true" {
        shown.push_str(" (default)");
    }
    vec![
        shown.into(),
        at(object, "/provisioner").into(),
        at(object, "/reclaimPolicy").into(),
        at(object, "/volumeBindingMode").into(),
        object["allowVolumeExpansion"].as_bool().unwrap_or(false).into(),
        age(object),
    ]
}

pub const CSI_NODES: &[Column] = &[text("Name"), text("Drivers"), text("Age")];

pub fn csi_node(object: &Value) -> Vec<Value> {
    vec![name(object), size(object, "/spec/drivers").into(), age(object)]
}

fn phase(object: &Value) -> &str {
    if at(object, "/metadata/deletionTimestamp").is_empty() { at(object, "/status/phase") } else { "Terminating" }
}

/// `RWO,ROX`: short, each once, in the stock server's order.
fn modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let given = list(object, pointer);
    let shown = SHORT.iter().filter(|(mode, _)| given.iter().any(|one| one == mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

fn or_unset(text: &str) -> &str {
    if text.is_empty() { UNSET } else { text }
}
