//! End-to-end tests: `km up` as a user runs it, real containers, and the stock kubectl.
//!
//! One cluster at a time: clusters share the machine's network and cgroups, and two cores.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bad_input;
mod disk;
mod docs;
mod failover;
mod hello;
mod images;
mod inspect;
mod kubectl;
mod lifecycle;
mod mesos;
mod mesos_clients;
mod pods;
mod services;
mod volumes;

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use km_testkit::{LocalCluster, Options};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A cluster for one test, and the right to have one.
struct Turn {
    cluster: LocalCluster,
    _turn: MutexGuard<'static, ()>,
}

/// Starts a cluster with further words on its command line, once no other test has one.
#[track_caller]
fn cluster(arguments: &[&str]) -> Turn {
    let turn = turn();
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    let cluster = LocalCluster::up(km(), Options { arguments, ..Options::default() });
    Turn { cluster, _turn: turn }
}

fn turn() -> MutexGuard<'static, ()> {
    // A failed test has stopped its cluster, so that the next may go on.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn km() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_km"))
}

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}
