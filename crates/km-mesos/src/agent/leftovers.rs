//! Ending what a killed agent left running.

use std::path::Path;

use anyhow::Context;
use tokio::sync::mpsc;

use super::{containers::Containers, lock};

/// Kills the containers that the agent of `work_dir` started and that still run. Needs no master; fails while the agent
/// itself runs. An agent that starts on the directory afterwards reports their tasks as ended.
pub async fn kill_leftovers(work_dir: &Path) -> anyhow::Result<()> {
    let Ok(work_dir) = work_dir.canonicalize() else { return Ok(()) };
    let _held = lock(&work_dir)?;
    // Nobody listens to what happens to them.
    let (events, _ignored) = mpsc::unbounded_channel();
    let mut containers = Containers::new(work_dir.join("meta/containers"), None, events);
    containers.recover(&[]).await.context("cannot end the containers that were left behind")?;
    Ok(())
}
