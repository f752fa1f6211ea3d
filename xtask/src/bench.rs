//! `cargo xtask bench NAME`: builds the release binary and runs one benchmark of `bench/`.

use std::process::Command;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::{
    machine, peers,
    shell::{self, root},
};

#[derive(Args)]
pub struct Flags {
    /// `up`, `latency`, `launch`, `schedule`, `placement` or `sim`; see `bench/README.md`.
    name: String,
    /// Of `launch`: `mesos` runs on Apache Mesos, with executors that do nothing, instead of on our own master and agents.
    /// Of `schedule`: `kube-scheduler` measures the stock scheduler of Kubernetes besides.
    #[arg(long)]
    peer: Option<Peer>,
    /// Of `placement`: only workloads whose name contains this. Of `sim`: flags of the example `growth` of km-sim.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

/// What others made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    Mesos,
    KubeScheduler,
}

pub fn run(flags: &Flags) -> Result<()> {
    match flags.name.as_str() {
        "placement" => return placement(flags),
        "sim" => return growth(flags),
        _ => {}
    }
    let name = match (flags.name.as_str(), flags.peer) {
        ("launch", Some(Peer::Mesos)) => "launch_on_mesos",
        (name, Some(Peer::Mesos)) => bail!("--peer mesos: only `launch` runs on Apache Mesos, not {name:?}"),
        (name, Some(Peer::KubeScheduler)) if name != "schedule" => {
            bail!("--peer kube-scheduler: only `schedule` has it, not {name:?}")
        }
        (name, _) => name,
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
    match flags.peer {
        Some(Peer::Mesos) => bench.arg(peers::mesos()?),
        Some(Peer::KubeScheduler) => bench.arg(peers::kube_scheduler()?),
        None => &mut bench,
    };
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
