//! The scheduler's core in a small world, situation by situation.

mod ends;
mod framework;
mod launching;
mod offers;
mod restarts;
mod unschedulable;
#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use km_scheduler::core::{Action, EventKind};
use world::World;

const SECOND: Duration = Duration::from_secs(1);

fn is_accept(action: &Action) -> bool {
    matches!(action, Action::Accept { .. })
}

fn messages(world: &World, wanted: EventKind) -> Vec<String> {
    world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::EmitEvent { kind, message, .. } if *kind == wanted => Some(message.clone()),
            _ => None,
        })
        .collect()
}
