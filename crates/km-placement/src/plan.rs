//! The outcome of placement.

use crate::reasons::Summary;

/// Where pods go. Indexes refer to the input's slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order in which they must be launched.
    pub placed: Vec<Placement>,
    pub refused: Vec<Refused>,
}

/// One pod's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Index into the pending pods.
    pub pod: usize,
    /// Index into the snapshot's nodes.
    pub node: usize,
    /// Index into the node's pools.
    pub pool: usize,
    /// Whether it brings the executor.
    pub with_executor: bool,
}

/// One pod without a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// Index into the pending pods.
    pub pod: usize,
    pub why: Summary,
}
