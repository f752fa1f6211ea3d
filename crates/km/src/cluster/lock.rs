//! One cluster a data directory: an advisory lock with the holder's process id in it.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

/// Held for the life of a cluster; released by the kernel when the process ends, however it ends.
pub struct Lock {
    _file: Flock<File>,
}

/// Who holds a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the data directory is in use by process {}", .0.pid)]
    Held(Holder),
    #[error("cannot lock {path}: {source}")]
    Io { path: String, source: std::io::Error },
}

impl Lock {
    /// Takes the lock and writes this process's id into it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let io = |source: std::io::Error| LockError::Io { path: path.display().to_string(), source };
        let file = open(path).map_err(io)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                file.set_len(0).map_err(io)?;
                file.rewind().map_err(io)?;
                write!(file, "{}", std::process::id()).map_err(io)?;
                Ok(Self { _file: file })
            }
            Err((file, Errno::EWOULDBLOCK)) => Err(LockError::Held(read_holder(file).map_err(io)?)),
            Err((_, errno)) => Err(io(errno.into())),
        }
    }

    /// Who holds the lock now, if anybody does.
    pub fn holder(path: &Path) -> Result<Option<Holder>, LockError> {
        if !path.exists() {
            return Ok(None);
        }
        let io = |source: std::io::Error| LockError::Io { path: path.display().to_string(), source };
        match Flock::lock(open(path).map_err(io)?, FlockArg::LockExclusiveNonblock) {
            Ok(_free_again_when_dropped) => Ok(None),
            Err((file, Errno::EWOULDBLOCK)) => read_holder(file).map(Some).map_err(io),
            Err((_, errno)) => Err(io(errno.into())),
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn read_holder(mut file: File) -> std::io::Result<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // Between locking and writing its id a holder is nameless for an instant.
    Ok(Holder { pid: text.trim().parse().unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_learns_who_holds_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!(Lock::holder(&path).unwrap(), None);
        let held = Lock::take(&path).unwrap();
        let expected = Holder { pid: std::process::id() as i32 };
        assert_eq!(Lock::holder(&path).unwrap(), Some(expected));
        assert!(matches!(Lock::take(&path), Err(LockError::Held(holder)) if holder == expected));
        drop(held);
        assert_eq!(Lock::holder(&path).unwrap(), None);
        Lock::take(&path).unwrap();
    }
}
