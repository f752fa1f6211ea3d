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
    /// `up`, `latency`, `launch`, `schedule`, `placement` or `sim`; see `bench/README.md`.
    name: String,
    /// Of `launch`: `embedded` (km's own master and agents, and containers) or `mesos` (Apache Mesos, and executors that
    /// do nothing).
    #[arg(long, default_value = "embedded", value_parser = ["embedded", "mesos"])]
    peer: String,
    /// Of `placement`: only workloads whose name contains this. Of `sim`: flags of the example `growth` of km-sim.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

pub fn run(flags: &Flags) -> Result<()> {
    match flags.name.as_str() {
        "placement" => return placement(flags),
        "sim" => return growth(flags),
        _ => {}
    }
    let on_mesos = flags.peer == "mesos";
    let name = match flags.name.as_str() {
        "launch" if on_mesos => "launch_on_mesos",
        name if on_mesos => bail!("--peer mesos: only `launch` runs on Apache Mesos, not {name:?}"),
        name => name,
    };
    let script = root().join("bench").join(format!("{name}.py"));
    if !script.exists() {
        bail!("there is no benchmark {:?}; bench/README.md lists them", flags.name);
    }
    machine::prepare()?;
    let kubectl = peers::kubectl()?;
    let packages = ["build", "--release", "--package", "km", "--package", "km-bench"];
    shell::run(Command::new(env!("CARGO")).current_dir(root()).args(packages))?;
    let mut bench = Command::new("python3");
    bench.arg(script).arg(root().join("target/release/km")).arg(kubectl);
    if on_mesos {
        bench.arg(peers::mesos()?);
    }
    shell::run(&mut bench)
}

/// The scheduler's core alone, in simulated clusters.
fn growth(flags: &Flags) -> Result<()> {
    let example = ["run", "--release", "--package", "km-sim", "--example", "growth", "--"];
    shell::run(Command::new(env!("CARGO")).current_dir(root()).args(example).args(&flags.more))
}

/// The placement engine alone, without a cluster.
fn placement(flags: &Flags) -> Result<()> {
    let example = ["run", "--release", "--package", "km-placement", "--example", "placement_bench", "--"];
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(example).arg(root().join("bench/placement/workloads.json")).args(&flags.more);
    shell::run(&mut command)
}
