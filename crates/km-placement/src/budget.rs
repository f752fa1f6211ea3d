//! PodDisruptionBudgets, as far as preemption minds them.

use std::collections::BTreeSet;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use km_kube::selector::LabelSelector;

use crate::need::Need;

/// How many pods of a kind may be removed. Best effort: preemption prefers not to go below.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    namespace: String,
    pods: LabelSelector,
    allowed: i64,
    /// Names of pods whose removal is under way and counted already.
    disrupted: BTreeSet<String>,
}

impl Budget {
    /// An absent selector, and (as in the scheduler of Kubernetes) an empty one, protects nobody.
    pub fn new(from: &PodDisruptionBudget) -> Self {
        let selector = from.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.and_then(|selector| LabelSelector::from_typed(selector).ok());
        let status = from.status.as_ref();
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        Self {
            namespace: from.metadata.namespace.clone().unwrap_or_default(),
            pods: selector.filter(|selector| !selector.is_everything()).unwrap_or_else(LabelSelector::nothing),
            allowed: status.and_then(|status| status.disruptions_allowed).map_or(0, i64::from),
            disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
        }
    }

    pub(crate) fn allowed(&self) -> i64 {
        self.allowed
    }

    /// Whether the removal of a pod counts. `id` is its namespace and name.
    pub(crate) fn guards(&self, id: &str, need: &Need) -> bool {
        let name = id.rsplit('/').next().unwrap_or(id);
        self.namespace == need.namespace
            && !need.labels.is_empty()
            && self.pods.matches(&need.labels)
            && !self.disrupted.contains(name)
    }
}
