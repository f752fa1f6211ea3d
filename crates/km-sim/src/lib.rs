//! A whole cluster in virtual time, from a seed, with faults and checked invariants.
//!
//! The cores of the embedded Mesos master and agents and of the scheduler run as they are, wired by links that delay
//! and break; API server and executors are simulated. For a while everything fails that can fail; then the faults end,
//! and the cluster must come to rest in the right state.

mod api;
mod check;
mod executor;
mod faults;
mod mesos;
mod scheduler;
mod settings;
mod workload;
mod world;

use std::time::Duration;

pub use check::Violation;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Deliveries of messages and timers.
    pub steps: u64,
    pub pods_created: u64,
    pub faults: u64,
    /// Tasks that came to RUNNING.
    pub runs: u64,
}

/// Runs one cluster for `duration` of virtual time with faults, and then until it is quiet. The same seed does the same.
pub fn run(seed: u64, duration: Duration) -> Result<Report, Violation> {
    let mut world = world::World::new(seed, duration);
    world.run()?;
    Ok(world.report)
}
