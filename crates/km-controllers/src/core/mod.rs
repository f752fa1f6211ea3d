//! The controller manager without IO: caches, work queue and the controllers behind one state machine.

mod action;
mod expectations;
mod manager;
mod outcomes;
mod pod_view;
mod queue;
mod resource;
mod route;
mod route_storage;
mod value;
mod world;

pub use action::{Action, Answer, Failure, Outcome};
pub use manager::{Config, Event, Manager, Task, Work};
pub use resource::{Key, Resource};

pub(crate) use pod_view::{DeclaredPort, PodView};
pub(crate) use value::{
    controller_of, controller_reference, integer, labels_at, owners, same_but_metadata, text, timestamp,
};
pub(crate) use world::World;

/// What a controller decided for one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// To be carried out in order. Neighbouring creates may go in growing batches; what follows a failed one is skipped.
    pub actions: Vec<Action>,
    /// Look again after this time even if nothing is seen to change.
    pub recheck: Option<std::time::Duration>,
}

impl Plan {
    pub(crate) fn new(actions: Vec<Action>) -> Self {
        Self { actions, recheck: None }
    }
}

#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod tests;
