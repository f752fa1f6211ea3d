//! `km reset`: stop the cluster and delete its data directory.

use std::{fs, path::PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;

use super::{DataDir, down};
use crate::{cluster::kubeconfig, exit::Failed, progress::Progress};

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    data: DataDir,
    /// Take the context `km` out of this kubeconfig [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    let layout = flags.data.layout();
    let progress = Progress::new();
    if !layout.root.exists() {
        progress.note(&format!("{} does not exist: nothing to reset", layout.root.display()));
        return Ok(());
    }
    if !layout.state().exists() && fs::read_dir(&layout.root)?.next().is_some() {
        let wrong = anyhow!("{} was not made by `km up`: it has no cluster.json", layout.root.display());
        return Err(Failed::from(wrong).way_out("name the right directory with --data-dir"));
    }
    down::stop(&layout, &progress).await?;
    fs::remove_dir_all(&layout.root).with_context(|| format!("cannot delete {}", layout.root.display()))?;
    if let Some(path) = flags.kubeconfig.or_else(kubeconfig::default_path) {
        kubeconfig::remove_from(&path, "km")?;
    }
    progress.note(&format!("{} is deleted", layout.root.display()));
    Ok(())
}
