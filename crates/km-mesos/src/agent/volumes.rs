//! The directories of persistent volumes, and their links in sandboxes.

use std::{
    fs, io,
    os::unix::fs::{chown, symlink},
    path::Path,
};

use km_mesos_core::agent::Mount;
use nix::unistd::{User, geteuid};

/// Carries out one change; what fails is logged, and a task that misses its volume fails by itself.
fn logged(what: &str, path: &str, done: io::Result<()>) {
    if let Err(error) = done {
        tracing::error!(path, %error, "cannot {what}");
    }
}

pub(super) fn make(path: &str) {
    logged("make a volume's directory", path, fs::create_dir_all(path));
}

/// Removes the data. The directory stays when it is a disk's mount point, which cannot be removed.
pub(super) fn clear(path: &str) {
    logged("clear a volume", path, clear_directory(Path::new(path)));
}

fn clear_directory(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        let directory = entry.is_dir() && !entry.is_symlink();
        if directory { fs::remove_dir_all(entry)? } else { fs::remove_file(entry)? }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        other => other,
    }
}

/// Lets a volume appear in a sandbox, owned by the user that the sandbox's processes run as.
pub(super) fn link(mount: &Mount) {
    logged("link a volume", &mount.link, link_volume(mount));
}

fn link_volume(mount: &Mount) -> io::Result<()> {
    let link = Path::new(&mount.link);
    if let Some(parent) = link.parent() {
        fs::create_dir_all(parent)?;
    }
    if let Some(user) = mount.user.as_deref().filter(|user| geteuid().is_root() && *user != "root")
        && let Some(user) = User::from_name(user).map_err(io::Error::from)?
    {
        chown(&mount.volume, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    match symlink(&mount.volume, link) {
        // Two tasks of an executor use the same volume.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

pub(super) fn unlink(link: &str) {
    let removed = match fs::remove_file(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    logged("unlink a volume", link, removed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_keeps_its_data_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (volume, in_sandbox) = (path("volumes/id"), path("sandbox/data/here"));
        make(&volume);
        link(&Mount { link: in_sandbox.clone(), volume: volume.clone(), user: None });
        link(&Mount { link: in_sandbox.clone(), volume: volume.clone(), user: None });
        fs::write(format!("{in_sandbox}/file"), "content").unwrap();
        unlink(&in_sandbox);
        unlink(&in_sandbox);
        assert!(!Path::new(&in_sandbox).exists());
        make(&volume);
        assert_eq!(fs::read_to_string(format!("{volume}/file")).unwrap(), "content");
        clear(&volume);
        assert!(!Path::new(&volume).exists());
    }
}
