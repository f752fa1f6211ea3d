//! Sandbox directories, laid out as Apache Mesos does: `…/runs/<container>`, with `latest` beside it.

use std::{
    fs, io,
    os::unix::fs::{chown, symlink},
    path::Path,
};

use anyhow::Context;
use km_mesos_core::agent::Launch;

use super::spawn::user_of;

/// Creates the sandbox.
pub(super) async fn create(launch: &Launch) -> anyhow::Result<()> {
    let sandbox = launch.sandbox.clone();
    let made = tokio::task::spawn_blocking(move || make(Path::new(&sandbox))).await?;
    made.with_context(|| format!("cannot create sandbox {}", launch.sandbox))
}

fn make(sandbox: &Path) -> io::Result<()> {
    fs::create_dir_all(sandbox)?;
    let (Some(runs), Some(name)) = (sandbox.parent(), sandbox.file_name()) else { return Ok(()) };
    let latest = runs.join("latest");
    match fs::remove_file(&latest) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(name, latest)
}

/// Gives the sandbox, and what was fetched into it, to the user that the container runs as.
pub(super) async fn hand_over(launch: &Launch) -> anyhow::Result<()> {
    let Some(user) = user_of(launch)? else { return Ok(()) };
    let sandbox = launch.sandbox.clone();
    let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
    let handed = tokio::task::spawn_blocking(move || give(Path::new(&sandbox), uid, gid)).await?;
    handed.with_context(|| format!("cannot give the sandbox to user {}", user.name))
}

fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    if path.is_symlink() {
        return Ok(());
    }
    chown(path, Some(uid), Some(gid))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}
