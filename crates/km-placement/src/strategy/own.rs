//! The strategies of this project: by how full a node is, or by when its offer came.

use super::{Candidate, Chooser};

/// See [`super::Strategy::Pack`].
#[derive(Clone, Copy, Debug)]
pub struct Pack;

/// See [`super::Strategy::Spread`].
#[derive(Clone, Copy, Debug)]
pub struct Spread;

/// See [`super::Strategy::FirstFit`].
#[derive(Clone, Copy, Debug)]
pub struct FirstFit;

impl Chooser for Pack {
    fn rank(&self, node: &Candidate<'_>) -> i64 {
        -used_share(node)
    }
}

impl Chooser for Spread {
    fn rank(&self, node: &Candidate<'_>) -> i64 {
        used_share(node)
    }
}

impl Chooser for FirstFit {
    fn rank(&self, node: &Candidate<'_>) -> i64 {
        i64::try_from(node.supply.arrival).unwrap_or(i64::MAX)
    }

    fn minds_wishes(&self) -> bool {
        false
    }
}

/// How much of cpu and memory is used, in millionths, as the mean of both.
fn used_share(node: &Candidate<'_>) -> i64 {
    let (mut cpu, mut memory) = (0, 0);
    for share in node.supply.pools.iter().flat_map(|pool| &pool.shares) {
        cpu += share.free.milli_cpu;
        memory += share.free.memory_bytes;
    }
    let share = |capacity: i64, free: i64| {
        let used = i128::from((capacity - free).max(0)) * 1_000_000;
        i64::try_from(used / i128::from(capacity.max(1))).unwrap_or(i64::MAX)
    };
    (share(node.facts.capacity.milli_cpu, cpu) + share(node.facts.capacity.memory_bytes, memory)) / 2
}
