//! A whole cluster in virtual time, from a seed, with faults and checked invariants.
//!
//! The cores of the Mesos master, its allocator and the agents, of schedulers (a leader and its stand-by), executors
//! and pods run as they are, wired by links that delay, break and repeat. The API server, the containers and the
//! frameworks that compete for the same agents are simulated. For a while everything fails that can fail; then the
//! faults end, and the cluster must come to rest in the right state.

mod check;
mod delivery;
mod executor;
mod faults;
mod framework;
mod measure;
mod mesos;
mod operators;
mod queue;
mod rival;
mod scheduler;
mod settings;
mod storage;
mod workload;
mod world;

use std::time::Duration;

pub use check::Violation;
pub use measure::{Costs, Measured};
pub use settings::{Meter, Settings};

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Deliveries of messages and timers.
    pub steps: u64,
    pub pods_created: u64,
    pub faults: u64,
    /// What operators did: drains, maintenance, quotas, reservations.
    pub operations: u64,
    /// Changes of what our framework is to Mesos.
    pub reconfigurations: u64,
    /// Claims to persistent volumes.
    pub claims: u64,
    /// Pods that came to phase Running.
    pub runs: u64,
    /// Tasks of competing frameworks.
    pub rival_tasks: u64,
    /// Starts of schedulers that led.
    pub leaders: u64,
    /// Virtual time until everything was at rest.
    pub rested: Duration,
    /// What the cores cost, and what was found when everything rested. Empty without a meter.
    pub measured: Measured,
}

/// Runs one cluster for a while with faults, and then until it is at rest. The same seed does the same.
///
/// # Errors
/// The first broken invariant, or what didn't come to rest.
pub fn run(seed: u64, settings: &Settings) -> Result<Report, Box<Violation>> {
    world::World::new(seed, settings.clone()).run()
}
