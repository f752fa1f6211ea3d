//! Persistent volumes, claims, storage classes and the drivers of nodes.

use super::at::{At, Errors};
use super::resources;
use super::volume::{self as pod_volume, inside_host};
use crate::names;
use crate::quantity::Quantity;
use crate::selector::LabelSelector;
use crate::storage::sources;

const ONE_POD: &str = "ReadWriteOncePod";
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", ONE_POD];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

pub(super) fn claim(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    access_modes(&spec, errors);
    resources::amounts(&spec.down("resources.requests"), errors);
    let storage = spec.down("resources.requests.storage");
    let shown = At { path: "spec.resources[storage]".to_owned(), value: storage.value };
    match amount(&storage) {
        None if !storage.is_set() => errors.push(shown.required("")),
        Some(0) => errors.push(shown.invalid("must be greater than zero")),
        _ => {}
    }
    if let Err(error) = LabelSelector::from_object(spec.field("selector").value) {
        errors.push(spec.field("selector").invalid(&error.to_string()));
    }
    spec.field("storageClassName").follows(names::dns1123_subdomain, errors);
    spec.field("volumeMode").one_of(&VOLUME_MODES, errors);
}

pub(super) fn volume(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    access_modes(&spec, errors);
    let capacity = spec.field("capacity");
    if capacity.need(errors) && capacity.entries().iter().any(|(name, _)| *name != "storage") {
        errors.push(super::FieldError::not_supported(capacity.path.clone(), capacity.value, &["storage"]));
    }
    resources::amounts(&capacity, errors);
    if amount(&capacity.field("storage")) == Some(0) {
        errors.push(
            At { path: "spec.capacity[storage]".to_owned(), ..capacity.field("storage") }
                .invalid("must be greater than zero"),
        );
    }
    spec.field("persistentVolumeReclaimPolicy").one_of(&RECLAIM_POLICIES, errors);
    spec.field("storageClassName").follows(names::dns1123_subdomain, errors);
    spec.field("volumeMode").one_of(&VOLUME_MODES, errors);
    source(&spec, errors);
}

fn source(spec: &At<'_>, errors: &mut Errors) {
    let mut given = sources(spec.value);
    let Some((kind, _)) = given.next() else {
        errors.push(spec.required("must specify a volume type"));
        return;
    };
    for (extra, _) in given {
        errors.push(spec.field(extra).forbidden("may not specify more than 1 volume type"));
    }
    let source = spec.field(kind);
    match kind {
        "hostPath" => {
            pod_volume::host_path(&source, errors);
            if source.field("path").text() == "/" && spec.field("persistentVolumeReclaimPolicy").text() == "Recycle" {
                let policy = spec.field("persistentVolumeReclaimPolicy");
                errors.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
            }
        }
        "local" => {
            inside_host(&source.field("path"), errors);
            if spec.down("nodeAffinity.required").is_empty() {
                errors.push(spec.field("nodeAffinity").required("Local volume requires node affinity"));
            }
        }
        "nfs" => {
            source.field("server").need(errors);
            source.field("path").need(errors);
        }
        "csi" => {
            source.field("driver").need(errors);
            source.field("volumeHandle").need(errors);
        }
        _ => {}
    }
}

pub(super) fn class(root: &At<'_>, errors: &mut Errors) {
    root.field("provisioner").need(errors);
    root.field("reclaimPolicy").one_of(&RECLAIM_POLICIES, errors);
    root.field("volumeBindingMode").one_of(&BINDING_MODES, errors);
    for term in root.field("allowedTopologies").items() {
        for expression in term.field("matchLabelExpressions").items() {
            expression.field("key").need_text(names::qualified_name, errors);
            expression.field("values").need(errors);
        }
    }
}

pub(super) fn csi_node(root: &At<'_>, errors: &mut Errors) {
    let drivers = root.down("spec.drivers");
    for driver in drivers.items() {
        driver.field("name").need_text(names::dns1123_subdomain, errors);
        driver.field("nodeID").need(errors);
        driver.down("allocatable.count").at_least(0, errors);
    }
    drivers.unique("name", errors);
}

fn access_modes(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    let all = modes.items();
    all.iter().for_each(|mode| mode.one_of(&MODES, errors));
    if all.len() > 1 && all.iter().any(|mode| mode.text() == ONE_POD) {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

pub(super) fn claim_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let bound = before.down("status.phase").text() == "Bound";
    let unbound = before.down("spec.volumeName").is_empty();
    let fixed = |spec: &At<'_>| {
        let mut fields = spec.value.as_object().cloned().unwrap_or_default();
        fields.remove("volumeAttributesClassName");
        if bound {
            fields.remove("resources");
        }
        // Binding sets the volume's name once.
        if unbound {
            fields.remove("volumeName");
        }
        // A default class that came later is given to claims that name none.
        if unbound && !before.down("spec.storageClassName").is_set() {
            fields.remove("storageClassName");
        }
        fields
    };
    if fixed(&root.field("spec")) != fixed(&before.field("spec")) {
        errors.push(root.field("spec").forbidden(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let requested = root.down("spec.resources.requests.storage");
    let has = |at: &At<'_>, field: &str| amount(&at.down(field));
    if bound
        && let (Some(wanted), Some(before)) = (amount(&requested), has(before, "spec.resources.requests.storage"))
        && wanted < before
        && has(root, "status.capacity.storage").is_none_or(|capacity| wanted < capacity)
    {
        errors.push(requested.forbidden("field can not be less than status.capacity"));
    }
}

pub(super) fn volume_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (spec, old) = (root.field("spec"), before.field("spec"));
    if !sources(spec.value).eq(sources(old.value)) {
        errors.push(
            spec.field("persistentvolumesource").forbidden("spec.persistentvolumesource is immutable after creation"),
        );
    }
    spec.field("volumeMode").immutable(&old.field("volumeMode"), errors);
    if old.field("nodeAffinity").is_set() {
        spec.field("nodeAffinity").immutable(&old.field("nodeAffinity"), errors);
    }
}

pub(super) fn class_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    for name in ["parameters", "provisioner", "reclaimPolicy"] {
        let (new, old) = (root.field(name), before.field(name));
        if new.value != old.value && !(new.is_empty() && old.is_empty()) {
            errors.push(new.forbidden(&format!("updates to {name} are forbidden.")));
        }
    }
    root.field("volumeBindingMode").immutable(&before.field("volumeBindingMode"), errors);
}

/// Bytes of a quantity that can be read.
fn amount(at: &At<'_>) -> Option<i64> {
    serde_json::from_value::<Quantity>(at.value.clone()).ok().filter(|_| at.is_set()).map(|amount| amount.value())
}
