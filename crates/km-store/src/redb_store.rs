//! The store that is used on one machine: memory in front, redb behind.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    Disk, Facets, FileDisk, Key, Page, Query, Store, StoreError, Stored, Watcher, Write,
    directory_lock::DirectoryLock,
    disk::Journal,
    memory::Memory,
    table::Window,
    writer::{Request, Writer},
};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Holds `objects.redb` and `lock`; made when it is not there.
    pub directory: PathBuf,
    /// What selectors will look at in an object.
    pub facets: fn(&Key, &Value) -> Facets,
    /// The most changes kept per resource for watches that start in the past.
    pub window_events: usize,
    /// Bytes of JSON per resource beyond which only the last `window_events / 8` are kept.
    pub window_bytes: usize,
}

impl Options {
    /// The usual window: 4096 changes or 8 MiB per resource.
    pub fn new(directory: impl Into<PathBuf>, facets: fn(&Key, &Value) -> Facets) -> Self {
        Self { directory: directory.into(), facets, window_events: 4096, window_bytes: 8 << 20 }
    }
}

/// An open store. Dropping it waits for the writes in the queue and closes the file.
pub struct RedbStore {
    memory: Arc<Memory>,
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    _lock: DirectoryLock,
}

impl RedbStore {
    /// Opens or creates the store of a directory.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let disk = FileDisk(options.directory.join("objects.redb"));
        Self::open_on(options, Box::new(disk))
    }

    /// As [`RedbStore::open`], with the database on another medium.
    pub fn open_on(options: Options, disk: Box<dyn Disk>) -> Result<Self, StoreError> {
        let Options { directory, facets, window_events, window_bytes } = options;
        let io = |error: std::io::Error| StoreError::Io { file: directory.clone(), reason: error.to_string() };
        std::fs::create_dir_all(&directory).map_err(io)?;
        let lock = DirectoryLock::take(&directory)?;
        let mut journal = Journal::new(disk);
        let contents = journal.open(facets)?;
        tracing::info!(objects = contents.objects.len(), revision = contents.revision, "opened the data file");
        let window = Window { events: window_events, bytes: window_bytes, least_events: window_events / 8 };
        let memory = Arc::new(Memory::new(contents, window));
        let (requests, queue) = mpsc::channel();
        let writer = Writer { journal, memory: memory.clone(), facets };
        let writer =
            std::thread::Builder::new().name("store-writer".to_owned()).spawn(|| writer.run(queue)).map_err(io)?;
        Ok(Self { memory, requests: Some(requests), writer: Some(writer), _lock: lock })
    }
}

#[async_trait::async_trait]
impl Store for RedbStore {
    fn revision(&self) -> u64 {
        self.memory.read().revision
    }

    fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.memory.read().get(key).cloned()
    }

    fn list(&self, query: &Query<'_>) -> Result<Page, StoreError> {
        self.memory.read().list(query)
    }

    async fn write(&self, write: Write) -> Result<Arc<Stored>, StoreError> {
        let (answer, result) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(StoreError::Closed)?;
        requests.send(Request { write, answer }).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    fn watch(&self, resource: &str, namespace: Option<&str>, revision: u64) -> Result<Watcher, StoreError> {
        Watcher::new(self.memory.clone(), resource, namespace, revision)
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}
