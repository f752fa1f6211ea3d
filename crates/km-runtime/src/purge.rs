//! Removes everything that an agent's runtime made.

use std::{fs, path::Path, time::Duration};

use crate::{
    Result, RuntimeError,
    bundle::{Bundle, Life},
    cgroup,
    files::{self, Context, read_json},
    net,
    oci::{AGENTS_CGROUP, AgentRecord, namespace_path},
};

const SIGKILL: i32 = 9;
/// How long killed shims may take to end.
const DEADLINE: Duration = Duration::from_secs(20);

/// Kills and removes all that is below a state root: containers and their shims, mounts, network namespaces, links,
/// packet filter table, control groups, logs, and the root itself. Succeeds when there is nothing (left).
///
/// # Errors
/// The root belongs to a runtime that is open, or something cannot be removed; it can be repeated then.
pub async fn purge(root: &Path) -> Result<()> {
    let purging = || format!("removing what {} records", root.display());
    let Ok(root) = root.canonicalize() else { return Ok(()) };
    let lock = files::open_lock(&root.join("lock")).context(purging)?;
    if !files::try_lock(&lock).context(purging)? {
        return Err(RuntimeError::Other(format!("{}: a running process has it open; stop that first", purging())));
    }
    let agent: Option<AgentRecord> = read_json(&AgentRecord::path(&root)).context(purging)?;
    for folder in subfolders(&root.join("containers")).context(purging)? {
        end_container(&Bundle(folder)).await?;
    }
    if let Some(agent) = &agent {
        let sandboxes: Vec<_> = subfolders(&root.join("sandboxes"))
            .context(purging)?
            .into_iter()
            .map(|folder| {
                let id = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                (id, namespace_path(&folder))
            })
            .collect();
        net::purge(&agent.net, &sandboxes).await?;
    }
    tokio::task::spawn_blocking(move || remove_files(&root, agent.as_ref()))
        .await
        .map_err(|error| RuntimeError::Other(error.to_string()))?
}

fn remove_files(root: &Path, agent: Option<&AgentRecord>) -> Result<()> {
    if let Some(agent) = agent {
        cgroup::remove(&agent.cgroup).context(|| "removing the agent's control group".to_owned())?;
        cgroup::remove_if_unused(AGENTS_CGROUP).context(|| "removing the parent of all agents' groups".to_owned())?;
        files::remove_tree(&agent.log_dir).context(|| format!("removing {}", agent.log_dir.display()))?;
    }
    net::release_subnet(root)?;
    files::remove_tree(root).context(|| format!("removing {}", root.display()))
}

fn subfolders(folder: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) => files::absent_is_fine(error).map(|()| Vec::new()),
    }
}

/// The shim is killed first, so that it cannot start anything; then all that is in the control group.
async fn end_container(bundle: &Bundle) -> Result<()> {
    let ending = || format!("ending the container in {}", bundle.0.display());
    let Some(record) = bundle.record().context(ending)? else { return Ok(()) };
    if let Some(shim) = bundle.shim().context(ending)? {
        shim.signal(SIGKILL).context(ending)?;
    }
    let group = record.cgroup.clone();
    tokio::task::spawn_blocking(move || cgroup::remove(&group))
        .await
        .map_err(|error| RuntimeError::Other(error.to_string()))?
        .context(ending)?;
    // The lock is let go when the last process of the shim is gone, and its private mounts with it.
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while matches!(bundle.life().context(ending)?, Life::Supervised) {
        if tokio::time::Instant::now() > deadline {
            return Err(RuntimeError::Other(format!("{}: its shim does not end", ending())));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
