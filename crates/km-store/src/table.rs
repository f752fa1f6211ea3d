//! One resource in memory: its objects and the window of its last changes.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use tokio::sync::watch;

use crate::{Event, EventKind, Page, Query, StoreError, Stored};

/// Namespace and name.
type Place = (String, String);

pub(crate) struct Table {
    objects: BTreeMap<Place, Arc<Stored>>,
    log: VecDeque<Arc<Event>>,
    log_bytes: usize,
    /// All changes after this revision are in the log.
    complete_after: u64,
    /// The revision of the table's last change; watchers wait on it.
    latest: watch::Sender<u64>,
}

impl Table {
    pub(crate) fn new(complete_after: u64) -> Self {
        let latest = watch::Sender::new(complete_after);
        Self { objects: BTreeMap::new(), log: VecDeque::new(), log_bytes: 0, complete_after, latest }
    }

    pub(crate) fn load(&mut self, object: Arc<Stored>) {
        self.objects.insert((object.key.namespace.clone(), object.key.name.clone()), object);
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Takes a change in; forgets the oldest ones beyond the window.
    pub(crate) fn apply(&mut self, event: Arc<Event>, window: Window) {
        let place = (event.object.key.namespace.clone(), event.object.key.name.clone());
        match event.kind {
            EventKind::Deleted => {
                self.objects.remove(&place);
            }
            EventKind::Added | EventKind::Modified => {
                self.objects.insert(place, event.object.clone());
            }
        }
        self.log_bytes += event.object.json.len();
        self.log.push_back(event);
        while self.log.len() > window.events || (self.log_bytes > window.bytes && self.log.len() > window.least_events)
        {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.object.json.len();
            self.complete_after = oldest.revision();
        }
    }

    /// Wakes the watchers, after a whole batch was applied.
    pub(crate) fn announce(&self) {
        if let Some(last) = self.log.back() {
            self.latest.send_replace(last.revision());
        }
    }

    /// At most `most` changes after a revision, or an error when some of them are forgotten.
    pub(crate) fn since(&self, revision: u64, most: usize) -> Result<Vec<Arc<Event>>, StoreError> {
        if revision < self.complete_after {
            return Err(StoreError::Compacted { requested: revision, oldest: self.complete_after });
        }
        let start = self.log.partition_point(|event| event.revision() <= revision);
        Ok(self.log.iter().skip(start).take(most).cloned().collect())
    }

    /// The page that `query` asks for; `current` is the store's revision.
    pub(crate) fn list(&self, query: &Query<'_>, current: u64) -> Result<Page, StoreError> {
        let revision = query.at.unwrap_or(current);
        if revision > current {
            return Err(StoreError::Future { requested: revision, current });
        }
        let start = match (&query.after, query.namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included((namespace.to_owned(), String::new())),
            (None, None) => Bound::Unbounded,
        };
        let in_namespace = |place: &Place| query.namespace.is_none_or(|namespace| place.0 == namespace);
        let unchanged = self.log.back().is_none_or(|last| last.revision() <= revision);
        if unchanged && revision >= self.complete_after {
            let range = self.objects.range((start, Bound::Unbounded));
            return Ok(page(
                range.take_while(|(place, _)| in_namespace(place)).map(|(_, object)| object),
                query,
                revision,
            ));
        }
        let past = self.at(revision)?;
        let range = past.range((start, Bound::Unbounded));
        Ok(page(range.take_while(|(place, _)| in_namespace(place)).map(|(_, object)| object), query, revision))
    }

    /// All objects as they were at a revision: today's, with later changes undone from the last to the first.
    fn at(&self, revision: u64) -> Result<BTreeMap<Place, Arc<Stored>>, StoreError> {
        if revision < self.complete_after {
            return Err(StoreError::Compacted { requested: revision, oldest: self.complete_after });
        }
        let mut objects = self.objects.clone();
        for event in self.log.iter().rev().take_while(|event| event.revision() > revision) {
            let place = (event.object.key.namespace.clone(), event.object.key.name.clone());
            match &event.previous {
                Some(previous) => objects.insert(place, previous.clone()),
                None => objects.remove(&place),
            };
        }
        Ok(objects)
    }
}

/// How many changes are kept per resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) events: usize,
    /// Bytes of JSON beyond which fewer are kept, but never fewer than `least_events`.
    pub(crate) bytes: usize,
    pub(crate) least_events: usize,
}

fn page<'a>(objects: impl Iterator<Item = &'a Arc<Stored>>, query: &Query<'_>, revision: u64) -> Page {
    let mut items = Vec::new();
    let mut remaining = 0;
    for object in objects {
        if query.limit != 0 && items.len() == query.limit {
            remaining += 1;
        } else if (query.matches)(object) {
            items.push(object.clone());
        }
    }
    Page { revision, items, remaining }
}
