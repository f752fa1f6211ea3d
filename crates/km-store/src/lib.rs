//! A versioned key-value store with watch, durable in one file.
//!
//! Values are JSON documents. The store writes each one's revision into `metadata.resourceVersion`, so that what is
//! on disk, in memory and in watch events is the text that goes to clients, and nobody renders it again.
//!
//! Reads and watches are served from memory; the file is read once, at opening. One thread takes queued writes,
//! commits all that wait in one transaction and answers each only after that transaction is on disk.

mod directory_lock;
mod disk;
mod error;
mod memory;
mod model;
mod redb_store;
mod table;
mod watcher;
mod writer;

pub use disk::{Contents, Disk, FileDisk};
pub use error::StoreError;
pub use model::{Change, Event, EventKind, Expect, Facets, Key, Page, Query, Stored, Write};
pub use redb_store::{Options, RedbStore};
pub use watcher::Watcher;

use std::sync::Arc;

/// What the API server needs of a store. Reads see every write that was acknowledged before them.
#[async_trait::async_trait]
pub trait Store: Send + Sync {
    /// The revision of the last write.
    fn revision(&self) -> u64;
    /// The latest value of a key.
    fn get(&self, key: &Key) -> Option<Arc<Stored>>;
    /// The objects of one resource in the order of their keys, as they were at one revision.
    fn list(&self, query: &Query<'_>) -> Result<Page, StoreError>;
    /// Makes one change, durable before this returns.
    async fn write(&self, write: Write) -> Result<Arc<Stored>, StoreError>;
    /// Every change of a resource after `revision`, in order, each once.
    fn watch(&self, resource: &str, namespace: Option<&str>, revision: u64) -> Result<Watcher, StoreError>;
}
