//! Volumes of a pod.

use super::at::{At, Errors};
use super::field_path;
use crate::names;

/// Checks all volumes and gives their names.
pub(super) fn volumes<'a>(at: &At<'a>, errors: &mut Errors) -> Vec<&'a str> {
    at.unique("name", errors);
    let mut known = Vec::new();
    for volume in at.items() {
        volume.field("name").need_text(names::dns1123_label, errors);
        known.push(volume.field("name").text());
        source(&volume, errors);
    }
    known
}

fn source(volume: &At<'_>, errors: &mut Errors) {
    let fields = volume.value.as_object().into_iter().flatten();
    let kinds = fields.filter(|(name, value)| *name != "name" && !value.is_null());
    let given: Vec<(&str, At<'_>)> = kinds.map(|(name, _)| (name.as_str(), volume.field(name))).collect();
    let Some(((kind, first), more)) = given.split_first() else {
        errors.push(volume.required("must specify a volume type"));
        return;
    };
    for (_, extra) in more {
        errors.push(extra.forbidden("may not specify more than 1 volume type"));
    }
    match *kind {
        "hostPath" => host_path(first, errors),
        "secret" => {
            first.field("secretName").need(errors);
            files(first, errors);
        }
        "configMap" => {
            first.field("name").need(errors);
            files(first, errors);
        }
        "downwardAPI" => {
            mode(&first.field("defaultMode"), errors);
            downward_items(first, errors);
        }
        "persistentVolumeClaim" => {
            first.field("claimName").need(errors);
        }
        "projected" => projected(first, errors),
        "emptyDir" => {
            let size = first.field("sizeLimit");
            let quantity = serde_json::from_value::<crate::quantity::Quantity>(size.value.clone()).unwrap_or_default();
            if quantity.is_negative() {
                errors.push(size.forbidden("SizeLimit field must be a valid resource quantity"));
            }
        }
        "nfs" => {
            first.field("server").need(errors);
            first.field("path").need(errors);
        }
        _ => {}
    }
}

pub(super) fn host_path(at: &At<'_>, errors: &mut Errors) {
    inside_host(&at.field("path"), errors);
    let kinds = ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
    at.field("type").one_of(&kinds, errors);
}

/// A path of the machine.
pub(super) fn inside_host(path: &At<'_>, errors: &mut Errors) {
    if path.need(errors) && path.text().split('/').any(|part| part == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
}

fn projected(at: &At<'_>, errors: &mut Errors) {
    mode(&at.field("defaultMode"), errors);
    for source in at.field("sources").items() {
        for kind in ["secret", "configMap"] {
            if source.field(kind).is_set() {
                source.field(kind).field("name").need(errors);
                files(&source.field(kind), errors);
            }
        }
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            token.field("path").need(errors);
            let seconds = token.field("expirationSeconds");
            if seconds.integer().is_some_and(|seconds| seconds < 600) {
                errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
            }
        }
        downward_items(&source.field("downwardAPI"), errors);
    }
}

/// Keys to files.
fn files(at: &At<'_>, errors: &mut Errors) {
    mode(&at.field("defaultMode"), errors);
    for item in at.field("items").items() {
        item.field("key").need(errors);
        if item.field("path").need(errors) {
            inside(&item.field("path"), errors);
        }
        mode(&item.field("mode"), errors);
    }
}

fn downward_items(at: &At<'_>, errors: &mut Errors) {
    for item in at.field("items").items() {
        if item.field("path").need(errors) {
            inside(&item.field("path"), errors);
        }
        let (field, resource) = (item.field("fieldRef").is_set(), item.field("resourceFieldRef").is_set());
        if field && resource {
            errors.push(item.invalid("fieldRef and resourceFieldRef can not be specified simultaneously"));
        } else if !field && !resource {
            errors.push(item.required("one of fieldRef and resourceFieldRef is required"));
        } else if field {
            field_path::of_file(&item.field("fieldRef"), errors);
        }
        mode(&item.field("mode"), errors);
    }
}

/// A path that stays inside its volume.
pub(super) fn inside(at: &At<'_>, errors: &mut Errors) {
    if at.text().starts_with('/') {
        errors.push(at.invalid("must be a relative path"));
    }
    if at.text().split('/').any(|part| part == "..") {
        errors.push(at.invalid("must not contain '..'"));
    }
}

fn mode(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(at.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}
