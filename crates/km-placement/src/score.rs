//! Which of the fitting nodes is best.

use crate::{Amounts, fit::NodeState, pending::PendingPod};

/// How nodes are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The fullest node: leaves whole agents to others.
    #[default]
    Pack,
    /// The emptiest node.
    Spread,
}

/// What may be set about placement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    pub strategy: Strategy,
    /// Whether tolerations with `Gt` and `Lt` count.
    pub comparison_tolerations: bool,
}

/// Lower is better: first the fewest pods of the same owner, so that replicas don't share a fate, then the strategy,
/// then the node's place in the snapshot.
pub(crate) type Rank = (u32, i64, usize);

/// The rank of a node that fits.
pub(crate) fn rank(policy: &Policy, node: &NodeState<'_>, index: usize, pod: &PendingPod) -> Rank {
    let mates = pod.owner.as_ref().and_then(|owner| node.owners.get(owner)).copied().unwrap_or(0);
    let used = used_share(&node.view.capacity, &node.free());
    (mates, if policy.strategy == Strategy::Pack { -used } else { used }, index)
}

/// How much of cpu and memory is used, in millionths, as the mean of both.
fn used_share(capacity: &Amounts, free: &Amounts) -> i64 {
    let share = |capacity: i64, free: i64| {
        let used = i128::from((capacity - free).max(0)) * 1_000_000;
        i64::try_from(used / i128::from(capacity.max(1))).unwrap_or(i64::MAX)
    };
    (share(capacity.milli_cpu, free.milli_cpu) + share(capacity.memory_bytes, free.memory_bytes)) / 2
}
