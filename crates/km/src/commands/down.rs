//! `km down`: stop the cluster of a data directory.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::DataDir;
use crate::{
    cluster::{Layout, Lock, LockError, folders},
    exit::{Exit, Failed},
    progress::Progress,
};

/// How long a cluster may take to stop its pods before it is killed: the default grace of a pod and a reserve.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    data: DataDir,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    let layout = flags.data.layout();
    if !stop(&layout, &Progress::new()).await? {
        let nothing = anyhow!("no cluster runs on {}", layout.root.display());
        return Err(Failed::new(Exit::NotRunning, nothing).way_out("`km up` starts one"));
    }
    Ok(())
}

/// Stops the cluster, also what a killed one left behind. Answers whether one ran.
pub async fn stop(layout: &Layout, progress: &Progress) -> Result<bool, Failed> {
    let holder = match Lock::holder(&layout.lock()) {
        Ok(holder) => holder,
        Err(LockError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(anyhow::Error::from(error).into()),
    };
    if let Some(holder) = holder {
        progress.step("cluster stopped", end(layout, holder.pid), |()| format!("process {}", holder.pid)).await?;
    }
    purge(layout).await?;
    Ok(holder.is_some())
}

/// Kills and removes what belongs to the data directory's pods, and nothing else.
pub async fn purge(layout: &Layout) -> anyhow::Result<()> {
    for agent in layout.agents()? {
        km_mesos::agent::kill_leftovers(&agent).await?;
    }
    for kubelet in folders(&layout.kubelet())? {
        km_runtime::purge(&kubelet).await.context("cannot remove the containers that were left behind")?;
    }
    Ok(())
}

async fn end(layout: &Layout, pid: i32) -> anyhow::Result<()> {
    if pid <= 0 {
        return Err(anyhow!("the cluster is just starting; try again"));
    }
    let process = Pid::from_raw(pid);
    kill(process, Signal::SIGTERM).with_context(|| format!("cannot signal process {pid}"))?;
    let gone = async {
        while Lock::holder(&layout.lock())?.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(PATIENCE, gone).await {
        Ok(result) => result,
        Err(_) => kill(process, Signal::SIGKILL).with_context(|| format!("cannot kill process {pid}")),
    }
}
