//! Requests and limits.

use super::at::{At, Errors};
use crate::names;
use crate::pod::is_extended;
use crate::quantity::Quantity;

/// `resources` of a container or pod.
pub(super) fn requirements(at: &At<'_>, errors: &mut Errors) {
    let (requests, limits) = (at.field("requests"), at.field("limits"));
    amounts(&limits, errors);
    amounts(&requests, errors);
    for (name, request) in requests.entries() {
        let limit = limits.value.get(name).and_then(read);
        let (Some(wanted), Some(limit)) = (read(request.value), limit) else { continue };
        if wanted > limit {
            let shown = At { path: requests.path.clone(), value: request.value };
            errors.push(shown.invalid(&format!("must be less than or equal to {name} limit of {limit}")));
        } else if wanted != limit && is_extended(name) {
            let shown = At { path: requests.path.clone(), value: request.value };
            errors.push(shown.invalid(&format!("must be equal to {name} limit of {limit}")));
        }
    }
    for (name, limit) in limits.entries() {
        if is_extended(name) && requests.is_set() && requests.value.get(name).is_none() {
            let shown = At { path: limits.path.clone(), value: limit.value };
            errors.push(shown.required("Limit must be set for non overcommitable resources"));
        }
    }
}

/// A map of resource names to amounts, none of them negative.
pub(super) fn amounts(at: &At<'_>, errors: &mut Errors) {
    for (name, amount) in at.entries() {
        if let Err(message) = names::qualified_name(name) {
            errors.push(amount.invalid(&message));
        }
        match read(amount.value) {
            None => errors.push(amount.invalid("must be a quantity such as 500m, 1, 64Mi or 1e3")),
            Some(quantity) if quantity.is_negative() => {
                errors.push(amount.invalid("must be greater than or equal to 0"));
            }
            Some(quantity) if is_extended(name) && quantity.nanos() % crate::quantity::NANO != 0 => {
                errors.push(amount.invalid("must be an integer"));
            }
            Some(_) => {}
        }
    }
}

fn read(value: &serde_json::Value) -> Option<Quantity> {
    serde_json::from_value(value.clone()).ok()
}
