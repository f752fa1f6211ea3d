//! A reader of one resource's changes.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{Event, StoreError, memory::Memory};

/// How many changes are taken out at once, so that a reader never holds the lock for long.
const BATCH: usize = 256;

/// Gives every change after its start revision, in order, each once. It holds no queue: a reader that falls behind
/// the window of kept changes gets `Compacted` and must list again.
pub struct Watcher {
    memory: Arc<Memory>,
    latest: watch::Receiver<u64>,
    resource: String,
    namespace: Option<String>,
    /// All changes up to here were given out.
    cursor: u64,
}

impl Watcher {
    pub(crate) fn new(
        memory: Arc<Memory>,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Self, StoreError> {
        let latest = {
            let mut state = memory.write();
            if revision > state.revision {
                return Err(StoreError::Future { requested: revision, current: state.revision });
            }
            let table = state.table_to_watch(resource);
            table.since(revision, 1)?;
            table.subscribe()
        };
        let (resource, namespace) = (resource.to_owned(), namespace.map(str::to_owned));
        Ok(Self { memory, latest, resource, namespace, cursor: revision })
    }

    /// Waits for changes and gives them out, at least one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        loop {
            self.latest.borrow_and_update();
            let (events, drained) = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if drained && self.latest.changed().await.is_err() {
                return Err(StoreError::Closed);
            }
        }
    }

    /// The revision up to which everything was given out: the store's own when no change of this resource waits.
    pub fn progress(&mut self) -> u64 {
        let state = self.memory.read();
        let waiting = state.known_table(&self.resource).map(|table| table.since(self.cursor, 1));
        if matches!(waiting, Some(Ok(events)) if events.is_empty()) {
            self.cursor = state.revision;
        }
        self.cursor
    }

    /// The next changes of the namespace, and whether none were left after them.
    fn take(&mut self) -> Result<(Vec<Arc<Event>>, bool), StoreError> {
        let state = self.memory.read();
        let Some(table) = state.known_table(&self.resource) else { return Ok((Vec::new(), true)) };
        let mut events = table.since(self.cursor, BATCH)?;
        let drained = events.len() < BATCH;
        if let Some(last) = events.last() {
            self.cursor = last.revision();
        }
        if let Some(namespace) = &self.namespace {
            events.retain(|event| event.object.key.namespace == *namespace);
        }
        Ok((events, drained))
    }
}
