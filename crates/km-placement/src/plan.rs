//! The outcome of placement.

use std::sync::Arc;

use crate::{fit::Taken, reasons::Summary};

/// Where pods go. Indexes refer to the pods that were to be placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order in which they must be launched.
    pub placed: Vec<(usize, Placement)>,
    pub refused: Vec<(usize, Arc<Summary>)>,
}

/// One pod's place. The engine counts the pod as being there from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The pod's id.
    pub pod: String,
    pub node: String,
    /// Index into the pools of the node's supply.
    pub pool: usize,
    /// Whether it brings the executor.
    pub with_executor: bool,
    pub(crate) taken: Taken,
}
