//! The arithmetic of a rolling update (Kubernetes docs, "Rolling Update Deployment").

use super::replica_set::ReplicaSet;
use super::view::Strategy;
use super::{State, scale};
use crate::core::Action;

/// How many replicas the new set may have now, given that it has `have`: never more pods in all than the surge allows.
pub(super) fn new_replicas(state: &State<'_>, have: i64) -> i64 {
    let wanted = state.deployment.replicas;
    if have >= wanted || state.deployment.strategy == Strategy::Recreate {
        return wanted;
    }
    let room = state.deployment.max_total() - state.total();
    if room <= 0 { have } else { have + room.min(wanted - have) }
}

/// Scales old sets down: first pods that are not available anyway, then as many as keep enough available.
pub(super) fn scale_down_old(state: &State<'_>, new: &ReplicaSet) -> Vec<Action> {
    let min_available = state.deployment.min_available();
    let new_unavailable = (new.replicas - new.available).max(0);
    let allowed = state.total() - min_available - new_unavailable;
    if allowed <= 0 {
        return Vec::new();
    }
    let mut targets: Vec<(&ReplicaSet, i64)> = state.old_sets().map(|set| (set, set.replicas)).collect();
    let mut dropped = 0;
    for (set, target) in &mut targets {
        let unhealthy = (set.replicas - set.available).clamp(0, allowed - dropped);
        *target -= unhealthy;
        dropped += unhealthy;
    }
    let available: i64 = state.sets.iter().map(|set| set.available).sum();
    let mut spare = available - min_available;
    for (_, target) in &mut targets {
        let step = (*target).clamp(0, spare.max(0));
        *target -= step;
        spare -= step;
    }
    let changed = targets.into_iter().filter(|(set, target)| *target != set.replicas);
    changed.map(|(set, target)| scale::to(state, set, target)).collect()
}
