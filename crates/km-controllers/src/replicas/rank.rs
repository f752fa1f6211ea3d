//! Which pods go first when there are too many (Kubernetes docs, "Scaling a ReplicaSet").

use crate::core::PodView;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Without a node before with; pending before running; not ready before ready; lower deletion cost; nodes with more
/// replicas; ready for less time; more restarts; younger. Between equals the uid decides, so that the order is always
/// the same.
pub(super) fn first_to_go<'a>(active: &[&'a PodView], related: &[&PodView]) -> Vec<&'a PodView> {
    let mut per_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *per_node.entry(&pod.node).or_default() += 1;
    }
    let mut ranked = active.to_vec();
    ranked.sort_by_cached_key(|pod| {
        let beside = per_node.get(pod.node.as_str()).copied().unwrap_or(0);
        (
            !pod.node.is_empty(),
            phase_rank(&pod.phase),
            pod.is_ready(),
            pod.deletion_cost,
            Reverse(beside),
            youngest(pod.ready_since),
            Reverse(pod.restarts),
            youngest(pod.created),
            pod.uid.clone(),
        )
    });
    ranked
}

fn phase_rank(phase: &str) -> u8 {
    match phase {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    }
}

/// Later times come first; an unset time is younger than any.
fn youngest(time: Option<Timestamp>) -> Reverse<i64> {
    Reverse(time.map_or(i64::MAX, Timestamp::as_second))
}
