//! `cargo xtask test`: unit, property, simulation and end-to-end tests.

use std::process::Command;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    machine, peers,
    shell::{self, root},
};

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
}

pub fn run(flags: &Flags) -> Result<()> {
    machine::prepare()?;
    let kubectl = peers::kubectl()?;
    let mesos = peers::mesos()?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).env("KM_TEST_KUBECTL", kubectl).env("KM_TEST_MESOS", mesos);
    cargo.env("KM_TEST_REAL_MESOS", peers::real_mesos()).env("KM_TEST_PYMESOS", peers::pymesos()?);
    cargo.args([
        "test",
        "--workspace",
        "--no-fail-fast",
        "--features",
        "km/e2e,km-mesos/differential,km-scheduler/peers",
    ]);
    if flags.peer == Some(Peer::Mesos) {
        cargo.args(["--test", "peer_mesos", "--test", "differential", "--test", "embedded_example"]);
    }
    cargo.arg("--").args(&flags.filter);
    shell::run(&mut cargo)
}
