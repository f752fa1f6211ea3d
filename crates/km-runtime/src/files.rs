//! Files that other processes read while they are written: each write is whole or absent.

use std::{
    fs,
    io::{self, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::fs::{FlockOperation, flock};
use serde::{Serialize, de::DeserializeOwned};

use crate::RuntimeError;

/// Writes beside the target and renames, so that a reader sees the old or the new content and never a part.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other(format!("{} has no parent folder", path.display())))?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_atomically(path, &serde_json::to_vec(value)?)
}

/// `None` when the file is not there.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(content) => serde_json::from_slice(&content)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens (and creates) a lock file. The lock is held while the file is open; it is not inherited by programs.
pub fn open_lock(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Waits for the lock.
pub fn lock(path: &Path) -> io::Result<fs::File> {
    let file = open_lock(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Makes a folder and waits for the lock on it. The folder may be removed while the lock is held: who waited for it
/// then makes a new one.
pub fn lock_folder(path: &Path) -> io::Result<fs::File> {
    loop {
        fs::create_dir_all(path)?;
        let folder = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            folder => folder?,
        };
        flock(&folder, FlockOperation::LockExclusive)?;
        match fs::metadata(path) {
            Ok(now) if now.ino() == folder.metadata()?.ino() => return Ok(folder),
            Ok(_) => {}
            Err(error) => absent_is_fine(error)?,
        }
    }
}

/// Removes a folder when nothing is in it, and nothing else.
pub fn remove_if_empty(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy) => Ok(()),
        result => result.or_else(absent_is_fine),
    }
}

/// `false` when another process holds the lock.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removing what is gone succeeds.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    }
    .or_else(absent_is_fine)
}

pub fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Names the step that failed.
pub trait Context<T> {
    fn context(self, context: impl FnOnce() -> String) -> crate::Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, context: impl FnOnce() -> String) -> crate::Result<T> {
        self.map_err(|source| RuntimeError::Io { context: context(), source })
    }
}

/// Unix time in nanoseconds.
pub fn now() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
