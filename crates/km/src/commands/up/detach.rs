//! `km up --detach`: the same cluster in a process of its own that outlives this one.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, anyhow};

use super::{Flags, take};
use crate::{
    cluster::Layout,
    exit::{Exit, Failed},
    progress::Progress,
};

/// Starts this program again in the background, with the same words, and waits until its cluster is ready.
pub async fn run(flags: &Flags, layout: &Layout, progress: &Progress) -> Result<(), Failed> {
    // Held only to say at once, in the foreground, that somebody else holds it.
    drop(take(layout)?);
    let _absent = fs::remove_file(layout.ready());
    let log = File::create(layout.log()).with_context(|| format!("cannot create {}", layout.log().display()))?;
    let words = std::env::args_os().skip(1).filter(|word| word != "--detach");
    let mut command = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    command
        .args(words)
        .arg("--in-background")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let mut child = command.spawn().context("cannot start the cluster in the background")?;
    let pid = child.id();
    let ready = async {
        loop {
            if let Some(status) = child.try_wait()? {
                let tail = fs::read_to_string(layout.log()).unwrap_or_default();
                return Err(anyhow!("the cluster ended ({status}):\n{tail}"));
            }
            if layout.ready().exists() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let patience = flags.wait * 2 + Duration::from_secs(10);
    let waited = async {
        match tokio::time::timeout(patience, ready).await {
            Ok(result) => result,
            Err(_) => Err(anyhow!("the cluster is not ready after {} s; it goes on trying", patience.as_secs())),
        }
    };
    let log = layout.log();
    progress
        .step("cluster runs in the background", waited, |()| format!("process {pid}, log {}", log.display()))
        .await
        .map_err(|error| Failed::new(Exit::Failure, error).way_out(format!("{} has its log", log.display())))?;
    print!("{}", fs::read_to_string(&log).unwrap_or_default());
    Ok(())
}
