//! Node selector and node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use km_kube::selector::{LabelRequirement, Operator};

use super::Need;

/// One term of node affinity: all its requirements must hold. Without any it matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeTerm {
    labels: Vec<LabelRequirement>,
    /// About the node's name.
    names: Vec<LabelRequirement>,
    /// Asks about a field that no node has.
    impossible: bool,
}

impl NodeTerm {
    pub fn new(term: &NodeSelectorTerm) -> Self {
        let fields = term.match_fields.as_deref().unwrap_or_default();
        Self {
            labels: term.match_expressions.iter().flatten().map(requirement).collect(),
            names: fields.iter().map(requirement).collect(),
            impossible: fields.iter().any(|field| field.key != "metadata.name"),
        }
    }

    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let says_something = !(self.labels.is_empty() && self.names.is_empty());
        says_something
            && !self.impossible
            && self.labels.iter().all(|requirement| requirement.matches(labels))
            && self.names.iter().all(|requirement| requirement.accepts(Some(name)))
    }
}

/// An operator that Kubernetes doesn't know is never met.
fn requirement(from: &NodeSelectorRequirement) -> LabelRequirement {
    let values = from.values.clone().unwrap_or_default();
    match Operator::from_name(&from.operator) {
        Some(operator) => LabelRequirement { key: from.key.clone(), operator, values },
        None => LabelRequirement { key: from.key.clone(), operator: Operator::In, values: Vec::new() },
    }
}

impl Need {
    /// Whether a node of that name and those labels is one the pod may go to: selector and required affinity must both
    /// agree; of the affinity's terms one is enough.
    pub(crate) fn selects(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.node_selector.iter().all(|requirement| requirement.matches(labels))
            && self.node_terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }

    /// The sum of the weights of the preferred terms that hold.
    pub(crate) fn preference(&self, name: &str, labels: &BTreeMap<String, String>) -> i64 {
        let holding = self.preferred_nodes.iter().filter(|(_, term)| term.matches(name, labels));
        holding.map(|(weight, _)| i64::from(*weight)).sum()
    }
}
