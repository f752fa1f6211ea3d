//! `cargo xtask sim`: simulated clusters from many seeds, faster than `cargo test` runs them.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::shell::{self, root};

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Flags {
    /// Flags of the example `seeds` of km-sim; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

pub fn run(flags: &Flags) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["run", "--quiet", "--profile", "sim", "--package", "km-sim"]);
    shell::run(cargo.args(["--example", "seeds", "--"]).args(&flags.flags))
}
