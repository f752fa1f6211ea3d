//! Probes and lifecycle handlers.

use super::at::{At, Errors};

pub(super) fn probe(at: &At<'_>, liveness: bool, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    handler(at, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
    for name in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        at.field(name).at_least(0, errors);
    }
    if liveness && at.field("successThreshold").integer().is_some_and(|number| number != 1) {
        errors.push(at.field("successThreshold").invalid("must be 1"));
    }
    let grace = at.field("terminationGracePeriodSeconds");
    if grace.integer().is_some_and(|seconds| seconds <= 0) {
        errors.push(grace.invalid("must be greater than 0"));
    }
}

pub(super) fn lifecycle(at: &At<'_>, errors: &mut Errors) {
    for name in ["postStart", "preStop"] {
        if at.field(name).is_set() {
            handler(&at.field(name), &["exec", "httpGet", "tcpSocket", "sleep"], errors);
        }
    }
}

fn handler(at: &At<'_>, kinds: &[&str], errors: &mut Errors) {
    let given: Vec<At<'_>> = kinds.iter().map(|kind| at.field(kind)).filter(At::is_set).collect();
    let Some((first, more)) = given.split_first() else {
        errors.push(at.required("must specify a handler type"));
        return;
    };
    for extra in more {
        errors.push(extra.forbidden("may not specify more than 1 handler type"));
    }
    if first.path.ends_with(".exec") {
        first.field("command").need(errors);
    } else if first.path.ends_with(".httpGet") {
        first.field("path").need(errors);
        first.field("port").port_or_name(errors);
        first.field("scheme").one_of(&["HTTP", "HTTPS"], errors);
        for header in first.field("httpHeaders").items() {
            header.field("name").need(errors);
        }
    } else if !first.path.ends_with(".sleep") {
        first.field("port").port_or_name(errors);
    } else {
        first.field("seconds").at_least(0, errors);
    }
}
