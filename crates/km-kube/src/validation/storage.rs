//! Persistent volumes and claims.

use super::at::{At, Errors};
use super::resources;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn claim(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    access_modes(&spec, errors);
    let storage = spec.down("resources.requests.storage");
    if !storage.is_set() {
        errors.push(At { path: "spec.resources[storage]".to_owned(), value: storage.value }.required(""));
    }
    resources::amounts(&spec.down("resources.requests"), errors);
    spec.field("volumeMode").one_of(&["Block", "Filesystem"], errors);
}

pub(super) fn volume(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    access_modes(&spec, errors);
    spec.field("capacity").need(errors);
    resources::amounts(&spec.field("capacity"), errors);
    spec.field("persistentVolumeReclaimPolicy").one_of(&["Delete", "Recycle", "Retain"], errors);
    spec.field("volumeMode").one_of(&["Block", "Filesystem"], errors);
}

fn access_modes(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    modes.items().iter().for_each(|mode| mode.one_of(&MODES, errors));
}

pub(super) fn claim_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let fixed = |spec: &At<'_>| {
        let mut fields = spec.value.as_object().cloned().unwrap_or_default();
        fields.remove("resources");
        fields.remove("volumeAttributesClassName");
        // Binding sets the volume's name once.
        if before.down("spec.volumeName").is_empty() {
            fields.remove("volumeName");
        }
        fields
    };
    if fixed(&root.field("spec")) != fixed(&before.field("spec")) {
        errors.push(root.field("spec").forbidden(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
}
