//! A Deployment, read from its object.

use crate::core::{Resource, controller_reference, integer, labels_at, text};
use km_kube::selector::LabelSelector;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub annotations: BTreeMap<String, String>,
    pub deleting: bool,
    pub replicas: i64,
    pub paused: bool,
    pub selector: LabelSelector,
    pub selector_object: Value,
    pub template: Value,
    pub strategy: Strategy,
    pub min_ready: i64,
    /// Seconds without progress after which the roll-out counts as stuck.
    pub deadline: i64,
    pub history_limit: usize,
    pub status: Value,
}

/// How pods are replaced. Counts are of pods; percentages are resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Strategy {
    Recreate,
    RollingUpdate { surge: i64, unavailable: i64 },
}

impl Deployment {
    pub(super) fn read(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let selector = LabelSelector::from_object(&spec["selector"]).ok().filter(super::usable)?;
        let replicas = integer(spec, "/replicas").unwrap_or(1).max(0);
        Some(Self {
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            generation: integer(object, "/metadata/generation").unwrap_or(0),
            annotations: labels_at(object, "/metadata/annotations"),
            deleting: !text(object, "/metadata/deletionTimestamp").is_empty(),
            replicas,
            paused: spec["paused"] == Value::Bool(true),
            selector,
            selector_object: spec["selector"].clone(),
            template: spec["template"].clone(),
            strategy: strategy(spec, replicas),
            min_ready: integer(spec, "/minReadySeconds").unwrap_or(0),
            deadline: integer(spec, "/progressDeadlineSeconds").unwrap_or(600),
            history_limit: usize::try_from(integer(spec, "/revisionHistoryLimit").unwrap_or(10)).unwrap_or(0),
            status: object["status"].clone(),
        })
    }

    pub(super) fn reference(&self) -> Value {
        controller_reference(&Resource::deployments(), &self.name, &self.uid)
    }

    /// Most pods at one time.
    pub(super) fn max_total(&self) -> i64 {
        match self.strategy {
            Strategy::RollingUpdate { surge, .. } if self.replicas > 0 => self.replicas + surge,
            _ => self.replicas,
        }
    }

    /// Fewest available pods during a roll-out.
    pub(super) fn min_available(&self) -> i64 {
        match self.strategy {
            Strategy::RollingUpdate { unavailable, .. } => self.replicas - unavailable.min(self.replicas),
            Strategy::Recreate => 0,
        }
    }
}

fn strategy(spec: &Value, replicas: i64) -> Strategy {
    if text(spec, "/strategy/type") == "Recreate" {
        return Strategy::Recreate;
    }
    let quarter = Value::String("25%".to_owned());
    let of = |name: &str| spec.pointer(&format!("/strategy/rollingUpdate/{name}")).unwrap_or(&quarter);
    // More pods round up, fewer pods round down; both zero would let nothing move.
    let surge = resolve(of("maxSurge"), replicas, true);
    let unavailable = resolve(of("maxUnavailable"), replicas, false);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Strategy::RollingUpdate { surge, unavailable }
}

/// A count, or a percentage of `whole`.
fn resolve(value: &Value, whole: i64, up: bool) -> i64 {
    if let Some(count) = value.as_i64() {
        return count.max(0);
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok()).unwrap_or(0);
    let product = whole.saturating_mul(percent.max(0));
    if up { (product + 99) / 100 } else { product / 100 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentages_round_surge_up_and_unavailable_down() {
        for (rolling, replicas, want) in [
            (json!({}), 10, (3, 2)),
            (json!({}), 1, (1, 0)),
            (json!({"maxSurge": 0, "maxUnavailable": 0}), 5, (0, 1)),
            (json!({"maxSurge": "0%", "maxUnavailable": "10%"}), 5, (0, 1)),
            (json!({"maxSurge": 2, "maxUnavailable": "50%"}), 5, (2, 2)),
        ] {
            let spec = json!({"strategy": {"rollingUpdate": rolling}});
            let (surge, unavailable) = want;
            assert_eq!(strategy(&spec, replicas), Strategy::RollingUpdate { surge, unavailable }, "{spec}");
        }
        assert_eq!(strategy(&json!({"strategy": {"type": "Recreate"}}), 1), Strategy::Recreate);
    }
}
