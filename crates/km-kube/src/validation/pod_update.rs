//! What an update of a pod may change: images, deadline, grace from negative to one, more tolerations, fewer gates.

use super::at::{At, Errors};
use serde_json::Value;

const ALLOWED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn pod(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (new.field("spec"), old.field("spec"));
    for list in ["containers", "initContainers"] {
        if spec.field(list).items().len() != before.field(list).items().len() {
            errors.push(spec.forbidden("pod updates may not add or remove containers"));
            return;
        }
    }
    deadline(&spec, &before, errors);
    tolerations(&spec, &before, errors);
    gates(&spec, &before, errors);
    let mut allowed = spec.value.clone();
    copy_allowed(&mut allowed, before.value);
    if &allowed != before.value {
        errors.push(spec.forbidden(ALLOWED));
    }
}

/// Overwrites in `spec` what may change by what it was: the rest must be equal then.
fn copy_allowed(spec: &mut Value, before: &Value) {
    for list in ["containers", "initContainers"] {
        let old = before.get(list).and_then(Value::as_array).into_iter().flatten();
        let new = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in new.zip(old) {
            copy(container, old, "image");
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        copy(spec, before, name);
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(before).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        copy(spec, before, "terminationGracePeriodSeconds");
    }
}

fn copy(to: &mut Value, from: &Value, name: &str) {
    let Value::Object(fields) = to else { return };
    match from.get(name) {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

fn deadline(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let at = spec.field("activeDeadlineSeconds");
    let Some(old) = before.field("activeDeadlineSeconds").integer() else { return };
    match at.integer() {
        Some(new) if new <= old => {}
        Some(_) => errors.push(at.invalid("must be less than or equal to previous value")),
        None => errors.push(at.invalid("must not update from a positive integer to nil value")),
    }
}

/// Old tolerations stay, save that their seconds may change.
fn tolerations(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let without_seconds = |toleration: &At<'_>| {
        let mut value = toleration.value.clone();
        if let Value::Object(fields) = &mut value {
            fields.remove("tolerationSeconds");
        }
        value
    };
    let at = spec.field("tolerations");
    let new: Vec<Value> = at.items().iter().map(without_seconds).collect();
    if !before.field("tolerations").items().iter().map(without_seconds).all(|old| new.contains(&old)) {
        errors.push(at.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
}

fn gates(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let at = spec.field("schedulingGates");
    let old = before.field("schedulingGates");
    let added = at.items().iter().any(|gate| !old.items().iter().any(|other| other.value == gate.value));
    if added {
        let detail = "only deletion is allowed, but found new scheduling gate";
        errors.push(at.forbidden(detail));
    }
}
