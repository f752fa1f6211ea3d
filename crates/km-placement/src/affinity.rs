//! Node selector and required node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Whether a node of that name and those labels is one the pod may go to: selector and required affinity must both
/// agree; of the affinity's terms one is enough.
pub(crate) fn selects(spec: &PodSpec, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    match affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref()) {
        None => true,
        Some(required) => required.node_selector_terms.iter().any(|term| term_matches(term, name, labels)),
    }
}

/// A term without expressions and fields matches nothing.
fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field =
        |requirement: &NodeSelectorRequirement| requirement.key == "metadata.name" && holds(requirement, Some(name));
    let expression =
        |requirement: &NodeSelectorRequirement| holds(requirement, labels.get(&requirement.key).map(String::as_str));
    !(expressions.is_empty() && fields.is_empty()) && expressions.iter().all(expression) && fields.iter().all(field)
}

/// `NotIn` and `DoesNotExist` accept a missing value. `Gt` and `Lt` need integers on both sides.
fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|one| one == value));
    let numbers = || {
        let have: i64 = value?.parse().ok()?;
        let want: i64 = values.first()?.parse().ok()?;
        Some((have, want))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(have, want)| have > want),
        "Lt" => numbers().is_some_and(|(have, want)| have < want),
        _ => false,
    }
}
