//! `cargo xtask sim`: simulated clusters from many seeds, faster than `cargo test` runs them.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::shell::{self, root};

#[derive(Args)]
pub struct Flags {
    /// How many clusters.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Seconds of virtual time in which things fail.
    #[arg(long, default_value_t = 180)]
    time: u64,
    /// Agents of each cluster.
    #[arg(long, default_value_t = 4)]
    agents: u64,
    /// Go on after a broken invariant, and show each in one line.
    #[arg(long)]
    keep_going: bool,
    /// Show all that is known of the past of a broken invariant.
    #[arg(long)]
    trace: bool,
}

pub fn run(flags: &Flags) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["run", "--quiet", "--profile", "sim", "--package", "km-sim"]);
    cargo.args(["--example", "seeds", "--"]);
    let numbers =
        [("--seeds", flags.seeds), ("--from", flags.from), ("--time", flags.time), ("--agents", flags.agents)];
    for (flag, number) in numbers {
        cargo.arg(flag).arg(number.to_string());
    }
    cargo.args(flags.keep_going.then_some("--keep-going")).args(flags.trace.then_some("--trace"));
    shell::run(&mut cargo)
}
