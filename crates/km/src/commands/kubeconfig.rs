//! `km kubeconfig`: print the cluster's kubeconfig, or merge it into a file.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Args;

use super::DataDir;
use crate::{
    cluster::kubeconfig,
    exit::{Exit, Failed},
};

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    data: DataDir,
    /// Merge the context `km` into this file instead of printing.
    #[arg(long, value_name = "FILE")]
    merge: Option<PathBuf>,
}

pub fn run(flags: &Flags) -> Result<(), Failed> {
    let path = flags.data.layout().kubeconfig("admin");
    let missing = || {
        Failed::new(Exit::NotRunning, anyhow::anyhow!("there is no cluster in {}", flags.data.layout().root.display()))
    };
    let Some(ours) = kubeconfig::read(&path)? else {
        return Err(missing().way_out("start one with `km up`, or name its directory with --data-dir"));
    };
    match &flags.merge {
        Some(file) => kubeconfig::merge_into(file, "km", &ours)?,
        None => print!("{}", fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?),
    }
    Ok(())
}
