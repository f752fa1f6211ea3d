//! `cargo xtask test`: unit, property, simulation and end-to-end tests.

use std::process::Command;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    machine, peers,
    shell::{self, root},
};

/// What turns on the tests that need root or a real peer.
const PEER_FEATURES: &str = "km/e2e,km-mesos/differential,km-mesos-client/peers,km-scheduler/peers";

#[derive(Args)]
pub struct Flags {
    /// Run only the tests against this real peer.
    #[arg(long, value_enum)]
    peer: Option<Peer>,
    /// Passed on to the test programs: a part of the names of the tests to run.
    filter: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Apache Mesos 1.11.
    Mesos,
    /// ZooKeeper.
    Zookeeper,
}

pub fn run(flags: &Flags) -> Result<()> {
    machine::prepare()?;
    let kubectl = peers::kubectl()?;
    let mesos = peers::mesos()?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).env("KM_TEST_KUBECTL", kubectl).env("KM_TEST_MESOS", mesos);
    cargo.env("KM_TEST_REAL_MESOS", peers::real_mesos()).env("KM_TEST_PYMESOS", peers::pymesos()?);
    cargo.env("KM_TEST_ZOOKEEPER", peers::ZOOKEEPER);
    cargo.args(["test", "--workspace", "--no-fail-fast", "--features", PEER_FEATURES]);
    match flags.peer {
        None => {}
        Some(Peer::Mesos) => {
            cargo.args(["--test", "peer_mesos", "--test", "differential", "--test", "embedded_example"]);
        }
        Some(Peer::Zookeeper) => {
            cargo.args(["--test", "zookeeper"]);
        }
    }
    cargo.arg("--").args(&flags.filter);
    shell::run(&mut cargo)
}
