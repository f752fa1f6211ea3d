//! `metadata` of any object.

use super::at::{At, Errors};
use super::error::FieldError;
use crate::names;

/// All annotations together, keys and values.
const ANNOTATIONS_MAX: usize = 256 * 1024;

type Rule = fn(&str) -> Result<(), String>;

/// What a name of this kind must look like.
pub(super) fn name_rule(group: &str, kind: &str) -> Rule {
    match (group, kind) {
        ("", "Namespace") => names::dns1123_label,
        ("", "Service") => names::dns1035_label,
        ("rbac.authorization.k8s.io", _) => path_segment,
        ("batch", "CronJob") => cron_job_name,
        _ => names::dns1123_subdomain,
    }
}

/// The names of jobs get eleven characters more, and their pods' labels hold them.
fn cron_job_name(name: &str) -> Result<(), String> {
    names::dns1123_subdomain(name)?;
    if name.len() > 52 { Err("must be no more than 52 characters".to_owned()) } else { Ok(()) }
}

fn path_segment(name: &str) -> Result<(), String> {
    match name {
        "." | ".." => Err(format!("may not be '{name}'")),
        _ if name.contains('/') => Err("may not contain '/'".to_owned()),
        _ if name.contains('%') => Err("may not contain '%'".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn metadata(at: &At<'_>, rule: Rule, errors: &mut Errors) {
    let (name, generate) = (at.field("name"), at.field("generateName"));
    if !generate.is_empty() {
        // A trailing dash is fine in a prefix: more characters follow.
        let prefix = generate.text().strip_suffix('-').map(|prefix| format!("{prefix}a"));
        if let Err(message) = rule(prefix.as_deref().unwrap_or(generate.text())) {
            errors.push(generate.invalid(&message));
        }
    }
    if name.is_empty() {
        if generate.is_empty() {
            errors.push(name.required("name or generateName is required"));
        }
    } else {
        name.follows(rule, errors);
    }
    at.field("namespace").follows(names::dns1123_label, errors);
    labels(&at.field("labels"), errors);
    annotations(&at.field("annotations"), errors);
    owners(&at.field("ownerReferences"), errors);
    for finalizer in at.field("finalizers").items() {
        finalizer.follows(names::qualified_name, errors);
    }
}

/// Keys and values of labels; also of selectors that are plain maps.
pub(super) fn labels(at: &At<'_>, errors: &mut Errors) {
    for (key, value) in at.entries() {
        if let Err(message) = names::qualified_name(key) {
            errors.push(FieldError::invalid(at.path.clone(), &key.into(), &message));
        }
        if let Err(message) = names::label_value(value.text()) {
            errors.push(FieldError::invalid(at.path.clone(), value.value, &message));
        }
    }
}

fn annotations(at: &At<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in at.entries() {
        size += key.len() + value.text().len();
        if let Err(message) = names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(at.path.clone(), &key.into(), &message));
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(at.path.clone(), ANNOTATIONS_MAX));
    }
}

fn owners(at: &At<'_>, errors: &mut Errors) {
    for owner in at.items() {
        for name in ["apiVersion", "kind", "name", "uid"] {
            if owner.field(name).is_empty() {
                errors.push(owner.field(name).invalid("must not be empty"));
            }
        }
    }
    if at.items().iter().filter(|owner| owner.field("controller").is_true()).count() > 1 {
        errors.push(at.invalid("Only one reference can have Controller set to true"));
    }
}

pub(super) fn metadata_update(at: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for name in ["name", "namespace", "uid", "creationTimestamp"] {
        // An update may leave out what the server set.
        if at.field(name).is_set() {
            at.field(name).immutable(&old.field(name), errors);
        }
    }
    if old.field("deletionTimestamp").is_set() {
        let before: Vec<&str> = old.field("finalizers").items().iter().map(At::text).collect();
        let after = at.field("finalizers").items();
        let added: Vec<&str> = after.iter().map(At::text).filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            errors.push(at.field("finalizers").forbidden(&format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            )));
        }
    }
}
