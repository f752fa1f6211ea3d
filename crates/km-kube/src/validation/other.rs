//! Small kinds, and the rule for kinds without rules: what the schema requires must be there.

use super::at::{At, Errors};
use super::workload::count_or_percent;
use crate::schema::{self, Shape, TypeRef};
use crate::selector::LabelSelector;

/// Priorities above this are for the system's own classes.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub(super) fn lease(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    let seconds = spec.field("leaseDurationSeconds");
    if seconds.integer().is_some_and(|seconds| seconds <= 0) {
        errors.push(seconds.invalid("must be greater than 0"));
    }
    spec.field("leaseTransitions").at_least(0, errors);
    let holder = spec.field("holderIdentity");
    if holder.is_set() && holder.is_empty() {
        errors.push(holder.invalid("must not be empty"));
    }
}

pub(super) fn disruption_budget(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        errors.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    count_or_percent(&least, true, errors);
    count_or_percent(&most, true, errors);
    if let Err(error) = LabelSelector::from_object(spec.field("selector").value) {
        errors.push(spec.field("selector").invalid(&error.to_string()));
    }
    spec.field("unhealthyPodEvictionPolicy").one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

pub(super) fn priority_class(root: &At<'_>, errors: &mut Errors) {
    let (name, value) = (root.down("metadata.name"), root.field("value"));
    if name.text().starts_with("system-") {
        if !matches!(name.text(), "system-cluster-critical" | "system-node-critical") {
            errors.push(name.forbidden("priority class names with 'system-' prefix are reserved for system use only"));
        }
    } else if value.integer().is_some_and(|value| value > HIGHEST_USER_PRIORITY) {
        errors.push(
            value.forbidden(&format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")),
        );
    }
    root.field("preemptionPolicy").one_of(&["Never", "PreemptLowerPriority"], errors);
}

pub(super) fn priority_class_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let number = |at: &At<'_>| at.field("value").integer().unwrap_or(0);
    if number(root) != number(before) {
        errors.push(root.field("value").forbidden("may not be changed in an update."));
    }
    root.field("preemptionPolicy").immutable(&before.field("preemptionPolicy"), errors);
}

/// Walks an object of any kind and asks for the fields that its type requires.
pub(super) fn required_by_schema(group: &str, kind: &str, root: &At<'_>, errors: &mut Errors) {
    let found = schema::kinds().into_iter().find(|(g, _, k)| *g == group && *k == kind);
    let Some(of) = found.and_then(|(group, version, kind)| schema::lookup(group, version, kind)) else { return };
    // What the server writes itself is not asked for.
    for (name, field) in of.fields().filter(|(name, _)| !matches!(*name, "metadata" | "status")) {
        walk(field, &root.field(name), errors);
    }
    missing(of, root, errors);
}

fn missing(of: TypeRef, at: &At<'_>, errors: &mut Errors) {
    for name in of.required() {
        if !at.field(name).is_set() {
            errors.push(at.field(name).required(""));
        }
    }
}

fn walk(of: TypeRef, at: &At<'_>, errors: &mut Errors) {
    match of.shape() {
        Shape::Object if at.value.is_object() => {
            missing(of, at, errors);
            for (name, field) in of.fields() {
                walk(field, &at.field(name), errors);
            }
        }
        Shape::List => {
            let Some(item) = of.items() else { return };
            at.items().iter().for_each(|child| walk(item, child, errors));
        }
        Shape::Map => {
            for (name, child) in at.entries() {
                if let Some(field) = of.field(name) {
                    walk(field, &child, errors);
                }
            }
        }
        _ => {}
    }
}
