//! Rules about other pods: affinity terms and spread constraints.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::{PodAffinityTerm, TopologySpreadConstraint},
    apimachinery::pkg::apis::meta::v1 as meta,
};
use km_kube::selector::LabelSelector;

use super::Need;

/// Labels of namespaces by name.
pub(crate) type NamespaceLabels = BTreeMap<String, BTreeMap<String, String>>;

/// Which pods a rule is about, and which label of their nodes makes a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub pods: PodSelector,
    pub key: String,
}

/// Pods by labels and namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodSelector {
    labels: LabelSelector,
    namespaces: BTreeSet<String>,
    /// Namespaces by their labels, besides the named ones.
    namespace_labels: Option<LabelSelector>,
    /// Only those of one owner.
    owner: Option<String>,
}

impl PodSelector {
    /// Whether it is about pods with that need.
    pub fn matches(&self, need: &Need, known: &NamespaceLabels) -> bool {
        let Need { namespace, labels, .. } = need;
        let by_labels = |selector: &LabelSelector| match known.get(namespace) {
            Some(labels) => selector.matches(labels),
            None => selector.matches(&BTreeMap::new()),
        };
        let there = self.namespaces.contains(namespace) || self.namespace_labels.as_ref().is_some_and(by_labels);
        there && self.labels.matches(labels) && (self.owner.is_none() || self.owner == need.owner)
    }
}

/// What a running pod wishes of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bond {
    pub kind: BondKind,
    pub term: Term,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BondKind {
    /// Required anti-affinity.
    Aversion,
    /// Preferred affinity, or anti-affinity with a negative weight.
    Liking(i32),
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spread {
    pub key: String,
    /// `DoNotSchedule` as opposed to `ScheduleAnyway`.
    pub hard: bool,
    pub max_skew: i64,
    pub min_domains: usize,
    pub honors_affinity: bool,
    pub honors_taints: bool,
    /// The pods that count.
    pub pods: PodSelector,
    /// 1 when the pod itself is one of those.
    pub own: i64,
    /// A node without the label is as good as an empty domain.
    pub lenient: bool,
}

/// The pods that a pod is to be spread among when it says nothing about that itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mates {
    /// What services select: their pods carry all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Whether they have the same owner.
    pub of_owner: bool,
}

/// Who the rules belong to.
pub(crate) struct Holder<'a> {
    pub namespace: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

impl Holder<'_> {
    /// Without namespaces and selector the holder's own namespace is meant. `matchLabelKeys` and `mismatchLabelKeys`
    /// stand for the holder's values of these labels; keys that it lacks are ignored. (The API server of Kubernetes
    /// merges them into the selector; doing it twice changes nothing.)
    pub fn term(&self, from: &PodAffinityTerm) -> Term {
        let labels = from.label_selector.as_ref().map_or_else(LabelSelector::nothing, |selector| {
            let same = self.requirements(from.match_label_keys.as_deref(), "In");
            let other = self.requirements(from.mismatch_label_keys.as_deref(), "NotIn");
            selector_with(selector, same.chain(other))
        });
        let mut namespaces: BTreeSet<String> = from.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && from.namespace_selector.is_none() {
            namespaces.insert(self.namespace.to_owned());
        }
        let namespace_labels = from.namespace_selector.as_ref().map(|selector| selector_with(selector, [].into_iter()));
        Term { pods: PodSelector { labels, namespaces, namespace_labels, owner: None }, key: from.topology_key.clone() }
    }

    /// Kubernetes counts no pod for an empty selector, although the pod itself matches it.
    pub fn spread(&self, from: &TopologySpreadConstraint) -> Spread {
        let given = from.label_selector.as_ref().map(|selector| {
            let same = self.requirements(from.match_label_keys.as_deref(), "In");
            selector_with(selector, same)
        });
        let own = given.as_ref().is_some_and(|selector| selector.matches(self.labels));
        let labels = given.filter(|selector| !selector.is_everything()).unwrap_or_else(LabelSelector::nothing);
        let namespaces = BTreeSet::from([self.namespace.to_owned()]);
        Spread {
            key: from.topology_key.clone(),
            hard: from.when_unsatisfiable == "DoNotSchedule",
            max_skew: i64::from(from.max_skew),
            min_domains: from.min_domains.and_then(|least| usize::try_from(least).ok()).unwrap_or(1),
            honors_affinity: from.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: from.node_taints_policy.as_deref() == Some("Honor"),
            pods: PodSelector { labels, namespaces, namespace_labels: None, owner: None },
            own: i64::from(own),
            lenient: false,
        }
    }

    /// The soft constraint that pods have which say nothing themselves.
    pub fn default_spread(&self, (key, max_skew): &(String, i64), mates: &Mates, owner: Option<&String>) -> Spread {
        let pods = PodSelector {
            labels: LabelSelector::from_map(&mates.labels),
            namespaces: BTreeSet::from([self.namespace.to_owned()]),
            namespace_labels: None,
            owner: owner.filter(|_| mates.of_owner).cloned(),
        };
        Spread {
            key: key.clone(),
            hard: false,
            max_skew: *max_skew,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
            pods,
            own: 1,
            lenient: true,
        }
    }

    fn requirements(
        &self,
        keys: Option<&[String]>,
        operator: &'static str,
    ) -> impl Iterator<Item = meta::LabelSelectorRequirement> {
        let held = keys.unwrap_or_default().iter().filter_map(|key| Some((key, self.labels.get(key)?)));
        held.map(move |(key, value)| meta::LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        })
    }
}

/// A selector that can't be read (validation refuses it) matches nothing.
fn selector_with(
    selector: &meta::LabelSelector,
    more: impl Iterator<Item = meta::LabelSelectorRequirement>,
) -> LabelSelector {
    let mut selector = selector.clone();
    selector.match_expressions.get_or_insert_default().extend(more);
    LabelSelector::from_typed(&selector).unwrap_or_else(|_| LabelSelector::nothing())
}
