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
    /// `up`, `latency` or `launch`; see `bench/README.md`.
    name: String,
}

pub fn run(flags: &Flags) -> Result<()> {
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
