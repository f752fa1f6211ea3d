//! `cargo xtask bench NAME`: builds the release binary and runs one benchmark of `bench/`.

use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::{
    machine, peers,
    shell::{self, root},
};

#[derive(Args)]
pub struct Flags {
    /// `up`, `latency`, `launch`, `schedule` or `placement`; see `bench/README.md`.
    name: String,
    /// Of `placement`: only workloads whose name contains this.
    only: Option<String>,
}

pub fn run(flags: &Flags) -> Result<()> {
    if flags.name == "placement" {
        return placement(flags);
    }
    let script = root().join("bench").join(format!("{}.py", flags.name));
    if !script.exists() {
        bail!("there is no benchmark {:?}; bench/README.md lists them", flags.name);
    }
    machine::prepare()?;
    let kubectl = peers::kubectl()?;
    let packages = ["build", "--release", "--package", "km", "--package", "km-bench"];
    shell::run(Command::new(env!("CARGO")).current_dir(root()).args(packages))?;
    shell::run(Command::new("python3").arg(script).arg(root().join("target/release/km")).arg(kubectl))
}

/// The placement engine alone, without a cluster.
fn placement(flags: &Flags) -> Result<()> {
    let example = ["run", "--release", "--package", "km-placement", "--example", "placement_bench", "--"];
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(example).arg(root().join("bench/placement/workloads.json")).args(&flags.only);
    shell::run(&mut command)
}
