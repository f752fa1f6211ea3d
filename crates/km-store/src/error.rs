//! What can go wrong in a store.

use std::path::PathBuf;

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key exists and was expected not to.
    #[error("already exists")]
    AlreadyExists,
    /// The key does not exist and was expected to.
    #[error("not found")]
    NotFound,
    /// The stored version is another one than expected.
    #[error("the stored revision is {current}, expected {expected}")]
    Conflict { expected: u64, current: u64 },
    /// The changes after this revision are no longer known.
    #[error("too old resource version: {requested} ({oldest})")]
    Compacted { requested: u64, oldest: u64 },
    /// This revision has not been reached.
    #[error("Too large resource version: {requested}, current: {current}")]
    Future { requested: u64, current: u64 },
    /// Another process works on the same files.
    #[error("data directory {} is in use by process {pid}; stop that one first or choose another directory", .directory.display())]
    InUse { directory: PathBuf, pid: String },
    /// The file is not what the store wrote.
    #[error(
        "the data file {} is damaged ({reason}); put a backup of it in its place, or run `km reset` to start empty",
        .file.display()
    )]
    Damaged { file: PathBuf, reason: String },
    /// The disk or quota is full.
    #[error("no space left to write {}: {reason}; free some space, reads go on and writes work again then", .file.display())]
    Full { file: PathBuf, reason: String },
    /// The file could not be read or written for another reason.
    #[error("cannot use the data file {}: {reason}", .file.display())]
    Io { file: PathBuf, reason: String },
    /// The document cannot be stored, e.g. because it is no JSON object.
    #[error("cannot store this document: {0}")]
    Unstorable(String),
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
}
