//! One process per data directory: an advisory lock on a file that names its holder.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
};

use crate::StoreError;

/// Held as long as the value lives. The kernel lets go of it when the process dies.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks `directory/lock`, or says which process holds it.
    pub(crate) fn take(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("lock");
        let io = |error: std::io::Error| StoreError::Io { file: path.clone(), reason: error.to_string() };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
                let pid = if known { pid.trim().to_owned() } else { "(unknown)".to_owned() };
                return Err(StoreError::InUse { directory: directory.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // The number only helps people; a full disk must not keep the store from starting.
        let written = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(std::process::id().to_string().as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, file = %path.display(), "cannot write the process id to the lock file");
        }
        Ok(Self { _file: file })
    }
}
