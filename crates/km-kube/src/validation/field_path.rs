//! Which fields of its own pod a `fieldRef` may name (Kubernetes docs, "Downward API").

use super::at::{At, Errors};
use crate::names;

const VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The `fieldRef` of a variable.
pub(super) fn of_variable(reference: &At<'_>, errors: &mut Errors) {
    check(&reference.field("fieldPath"), &VARIABLES, errors);
}

/// The `fieldRef` of a file in a volume.
pub(super) fn of_file(reference: &At<'_>, errors: &mut Errors) {
    check(&reference.field("fieldPath"), &FILES, errors);
}

fn check(at: &At<'_>, supported: &[&str], errors: &mut Errors) {
    if !at.need(errors) {
        return;
    }
    match subscript(at.text()) {
        Some(key) if names::qualified_name(key).is_err() => {
            errors.push(at.invalid("the name in brackets must be that of a label or an annotation"));
        }
        Some(_) => {}
        None => at.one_of(supported, errors),
    }
}

/// The name in `metadata.labels['NAME']` and `metadata.annotations['NAME']`.
fn subscript(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("metadata.labels").or_else(|| path.strip_prefix("metadata.annotations"))?;
    rest.strip_prefix("['")?.strip_suffix("']")
}
