//! The state that reads and watches are served from.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{
    Event, Key, Page, Query, StoreError, Stored,
    disk::Contents,
    table::{Table, Window},
};

/// All tables and the revision up to which they are known.
pub(crate) struct State {
    pub(crate) revision: u64,
    /// The revision at opening: changes before it are in no log.
    opened_at: u64,
    tables: HashMap<String, Table>,
    window: Window,
}

/// The state, shared by readers, watchers and the one writer.
pub(crate) struct Memory {
    state: RwLock<State>,
}

impl Memory {
    pub(crate) fn new(contents: Contents, window: Window) -> Self {
        let opened_at = contents.revision;
        let mut state = State { revision: opened_at, opened_at, tables: HashMap::new(), window };
        for object in contents.objects {
            let object = Arc::new(object);
            state.table(&object.key.resource).load(object.clone());
        }
        Self { state: RwLock::new(state) }
    }

    // A panic while the lock is held can only come from a failed allocation: what is behind it is whole.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn table(&mut self, resource: &str) -> &mut Table {
        let opened_at = self.opened_at;
        self.tables.entry(resource.to_owned()).or_insert_with(|| Table::new(opened_at))
    }

    pub(crate) fn known_table(&self, resource: &str) -> Option<&Table> {
        self.tables.get(resource)
    }

    /// The table of a resource, made when it is not there, so that it can be watched.
    pub(crate) fn table_to_watch(&mut self, resource: &str) -> &Table {
        self.table(resource)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.tables.get(&key.resource)?.get(&key.namespace, &key.name)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.tables.values().flat_map(Table::objects)
    }

    pub(crate) fn list(&self, query: &Query<'_>) -> Result<Page, StoreError> {
        match self.tables.get(query.resource) {
            Some(table) => table.list(query, self.revision),
            None => Table::new(self.opened_at).list(query, self.revision),
        }
    }

    /// Takes in a committed batch: `events` in the order of their revisions, `revision` the last one.
    pub(crate) fn publish(&mut self, events: Vec<Arc<Event>>, revision: u64) {
        let window = self.window;
        let mut touched: Vec<String> = Vec::new();
        for event in events {
            let resource = event.object.key.resource.clone();
            self.table(&resource).apply(event, window);
            if !touched.contains(&resource) {
                touched.push(resource);
            }
        }
        self.revision = revision;
        for resource in touched {
            self.table(&resource).announce();
        }
    }
}
