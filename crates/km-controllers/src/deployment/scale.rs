//! Changing the size of replica sets.

use super::replica_set::{DESIRED, MAX, ReplicaSet};
use super::revision::patch;
use super::{State, view::Strategy};
use crate::core::{Action, Resource};
use serde_json::json;

/// Gives a set a number of replicas, and notes for which size of the deployment that was.
pub(super) fn to(state: &State<'_>, set: &ReplicaSet, replicas: i64) -> Action {
    let change = json!({
        "metadata": {
            "uid": set.uid,
            "resourceVersion": set.resource_version,
            "annotations": {
                DESIRED: state.deployment.replicas.to_string(),
                MAX: state.deployment.max_total().to_string(),
            },
        },
        "spec": {"replicas": replicas},
    });
    patch(state, &Resource::replica_sets(), &set.name, None, change)
}

/// When the deployment itself was resized (during a roll-out or a pause), all its active sets are resized in
/// proportion. None when it was not.
pub(super) fn after_resize(state: &State<'_>) -> Option<Vec<Action>> {
    let wanted = state.deployment.replicas;
    let active: Vec<&ReplicaSet> = state.sets.iter().filter(|set| set.replicas > 0).collect();
    let resized = active.iter().any(|set| set.number(DESIRED).is_some_and(|desired| desired != wanted));
    if !resized {
        return if state.deployment.paused { only_set(state, &active) } else { None };
    }
    if let [only] = active[..] {
        return Some(vec![to(state, only, wanted)]);
    }
    if state.deployment.strategy == Strategy::Recreate {
        return None;
    }
    let room = if wanted > 0 { state.deployment.max_total() } else { 0 };
    let total: i64 = active.iter().map(|set| set.replicas).sum();
    let mut left = room - total;
    let mut sizes: Vec<(&ReplicaSet, i64)> = active.iter().map(|set| (*set, set.replicas)).collect();
    // Larger sets first; among equals the newer when growing, the older when shrinking.
    sizes.sort_by_key(|(set, replicas)| {
        (
            -replicas,
            if left > 0 { set.created.map(|time| -time.as_second()) } else { set.created.map(|time| time.as_second()) },
        )
    });
    for (set, size) in &mut sizes {
        let before = set.number(MAX).filter(|max| *max > 0).unwrap_or(total.max(1));
        // Rounded share of the new room.
        let share = (set.replicas * room * 2 + before) / (before * 2) - set.replicas;
        let change = if left > 0 { share.clamp(0, left) } else { share.clamp(left, 0) };
        *size += change;
        left -= change;
    }
    // What rounding left over goes to the largest.
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + left).max(0);
    }
    Some(sizes.into_iter().map(|(set, size)| to(state, set, size)).collect())
}

/// A paused deployment with one set is still resized.
fn only_set(state: &State<'_>, active: &[&ReplicaSet]) -> Option<Vec<Action>> {
    match active {
        [only] if only.replicas != state.deployment.replicas => Some(vec![to(state, only, state.deployment.replicas)]),
        _ => None,
    }
}
