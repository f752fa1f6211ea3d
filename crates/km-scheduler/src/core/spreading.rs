//! The spread of pods that say nothing about it: like the default constraints of Kubernetes, among the pods of their services
//! and of their replica set.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;
use km_placement::{Mates, Strategy};
use km_podtask::PodKey;
use thiserror::Error;

use super::{Action, Core, pods::annotation};

/// Owners whose pods are alike.
const REPLICATING: [&str; 3] = ["ReplicaSet", "ReplicationController", "StatefulSet"];

/// Which soft constraints such pods have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultSpread {
    /// Those of Kubernetes, for pods whose way of placement spreads.
    Auto,
    /// These label keys and skews, for all pods.
    Always(Vec<(String, i64)>),
}

/// The text is none of the forms of the flag.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is none of auto, system, none and a list like topology.kubernetes.io/zone:5")]
pub struct SpreadError(String);

/// Kubernetes' own ("System").
fn system() -> Vec<(String, i64)> {
    vec![(keys::HOSTNAME_LABEL.to_owned(), 3), (keys::ZONE_LABEL.to_owned(), 5)]
}

impl DefaultSpread {
    /// `auto`, `system`, `none`, or pairs of label and skew.
    pub fn parse(text: &str) -> Result<Self, SpreadError> {
        let pair = |pair: &str| {
            let (key, skew) = pair.trim().rsplit_once(':')?;
            let skew = skew.parse().ok().filter(|skew| *skew > 0)?;
            km_kube::names::qualified_name(key).ok()?;
            Some((key.to_owned(), skew))
        };
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "system" => Ok(Self::Always(system())),
            "none" => Ok(Self::Always(Vec::new())),
            list => {
                let pairs: Option<Vec<(String, i64)>> = list.split(',').map(pair).collect();
                pairs.map(Self::Always).ok_or_else(|| SpreadError(text.to_owned()))
            }
        }
    }

    fn of(&self, strategy: Strategy) -> Vec<(String, i64)> {
        match self {
            Self::Auto if matches!(strategy, Strategy::Spread | Strategy::Kubernetes) => system(),
            Self::Auto => Vec::new(),
            Self::Always(list) => list.clone(),
        }
    }
}

impl Core {
    /// The default constraints of a pod, and whom they are about.
    pub(super) fn spread_of(&self, pod: &Pod) -> (Vec<(String, i64)>, Mates) {
        let own = annotation(pod, keys::PLACEMENT).and_then(Strategy::parse);
        let constraints = self.config.default_spread.of(own.unwrap_or(self.config.policy.strategy));
        if constraints.is_empty() {
            return (constraints, Mates::default());
        }
        let empty = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&empty);
        let services = self.services.get(&PodKey::of(&pod.metadata).namespace);
        let selects =
            |selector: &&BTreeMap<String, String>| selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let selectors = services.into_iter().flat_map(BTreeMap::values).filter(selects);
        let owners = pod.metadata.owner_references.iter().flatten();
        let replicated = |kind: &str| REPLICATING.contains(&kind);
        let mates = Mates {
            labels: selectors.flatten().map(|(key, value)| (key.clone(), value.clone())).collect(),
            of_owner: owners.filter(|owner| owner.controller == Some(true)).any(|owner| replicated(&owner.kind)),
        };
        (constraints, mates)
    }

    /// A service came, went, or selects others. Pods that wait are read anew, as they may be spread otherwise.
    pub(super) fn on_service(
        &mut self,
        now: Duration,
        id: &PodKey,
        selector: BTreeMap<String, String>,
        out: &mut Vec<Action>,
    ) {
        let services = self.services.entry(id.namespace.clone()).or_default();
        let before = match selector.is_empty() {
            true => services.remove(&id.name),
            false => services.insert(id.name.clone(), selector.clone()),
        };
        if services.is_empty() {
            self.services.remove(&id.namespace);
        }
        if before.unwrap_or_default() == selector {
            return;
        }
        let waiting = self.queue.iter().filter(|(key, _)| key.namespace == id.namespace);
        let waiting: Vec<(PodKey, Duration)> = waiting.map(|(key, one)| (key.clone(), one.not_before)).collect();
        for (key, not_before) in waiting {
            if let Some(pod) = self.pods.get(&key).cloned() {
                self.enqueue(now, &pod, not_before, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_has_four_forms() {
        let pair = |key: &str, skew: i64| (key.to_owned(), skew);
        let table = [
            ("auto", Ok(DefaultSpread::Auto)),
            ("none", Ok(DefaultSpread::Always(vec![]))),
            (
                "system",
                Ok(DefaultSpread::Always(vec![
                    pair("kubernetes.io/hostname", 3),
                    pair("topology.kubernetes.io/zone", 5),
                ])),
            ),
            ("rack:1, a.b/row:2", Ok(DefaultSpread::Always(vec![pair("rack", 1), pair("a.b/row", 2)]))),
            ("", Err(())),
            ("System", Err(())),
            ("rack:0", Err(())),
            ("rack:x", Err(())),
            ("a b:1", Err(())),
            ("rack:1,", Err(())),
        ];
        for (text, expected) in table {
            let found = DefaultSpread::parse(text);
            assert_eq!(found.as_ref().ok(), expected.as_ref().ok(), "{text:?}");
            if let Err(error) = found {
                assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
            }
        }
    }
}
