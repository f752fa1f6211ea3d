//! The one thread that changes things.
//!
//! It takes all writes that wait, plans them against the state and each other, commits them in one transaction,
//! publishes them to memory and answers. Under load many writes share the cost of one flush to disk.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, mpsc},
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    Change, Event, EventKind, Expect, Facets, Key, StoreError, Stored, Write,
    disk::{Contents, Journal},
    memory::Memory,
};

/// The most writes of one transaction: bounds how long the first of them waits for its answer.
const BATCH: usize = 256;
/// After a transaction of so many writes more of them are on their way ...
const CROWD: usize = 8;
/// ... and are waited for so long: each transaction costs a flush and some pages, however few writes it has.
const LINGER: Duration = Duration::from_millis(1);

type Answer = oneshot::Sender<Result<Arc<Stored>, StoreError>>;

/// A queued write and where its result goes.
pub(crate) struct Request {
    pub(crate) write: Write,
    pub(crate) answer: Answer,
}

pub(crate) struct Writer {
    pub(crate) journal: Journal,
    pub(crate) memory: Arc<Memory>,
    pub(crate) facets: fn(&Key, &Value) -> Facets,
}

impl Writer {
    /// Works until every sender is gone.
    pub(crate) fn run(mut self, requests: mpsc::Receiver<Request>) {
        let mut crowded = false;
        while let Ok(first) = requests.recv() {
            if crowded {
                std::thread::sleep(LINGER);
            }
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(request) = requests.try_recv()
            {
                batch.push(request);
            }
            crowded = batch.len() >= CROWD;
            self.handle(batch);
        }
    }

    fn handle(&mut self, batch: Vec<Request>) {
        if let Err(error) = self.recover() {
            for request in batch {
                answer(request.answer, Err(error.clone()));
            }
            return;
        }
        let mut plan = Plan::new(self.memory.read().revision);
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        for request in batch {
            let key = request.write.key.clone();
            match self.plan(request.write, &mut plan) {
                Ok(stored) => accepted.push((request.answer, stored)),
                Err(error) => refused.push((request.answer, key, error)),
            }
        }
        let committed = match plan.events.is_empty() {
            true => Ok(()),
            false => self.journal.commit(&plan.events, plan.revision),
        };
        if let Err(error) = &committed {
            tracing::error!(%error, writes = accepted.len(), "writes failed");
        } else {
            self.memory.write().publish(plan.events, plan.revision);
        }
        for (to, stored) in accepted {
            answer(to, committed.clone().map(|()| stored));
        }
        // Only now: who lost against a write of this batch will read again and must find that write, and if it came
        // to nothing, nobody lost against it.
        for (to, key, error) in refused {
            let lost_to_nothing = committed.is_err() && plan.overlay.contains_key(&key);
            answer(to, Err(committed.clone().err().filter(|_| lost_to_nothing).unwrap_or(error)));
        }
    }

    /// Checks one write against the state and the writes planned before it, and plans it.
    fn plan(&self, write: Write, plan: &mut Plan) -> Result<Arc<Stored>, StoreError> {
        let Write { key, expect, change } = write;
        let current = match plan.overlay.get(&key) {
            Some(planned) => planned.clone(),
            None => self.memory.read().get(&key).cloned(),
        };
        match (expect, &current) {
            (Expect::Absent, Some(_)) => return Err(StoreError::AlreadyExists),
            (Expect::Revision(_), None) => return Err(StoreError::NotFound),
            (Expect::Revision(expected), Some(stored)) if stored.revision != expected => {
                return Err(StoreError::Conflict { expected, current: stored.revision });
            }
            _ => {}
        }
        let revision = plan.revision + 1;
        let (kind, object, after) = match change {
            Change::Put(document) => {
                let object = self.render(key.clone(), document, revision)?;
                let kind = if current.is_some() { EventKind::Modified } else { EventKind::Added };
                (kind, object.clone(), Some(object))
            }
            Change::Delete => {
                let last = current.as_ref().ok_or(StoreError::NotFound)?;
                (EventKind::Deleted, self.render(key.clone(), last.value(), revision)?, None)
            }
        };
        plan.events.push(Arc::new(Event { kind, object: object.clone(), previous: current }));
        plan.revision = revision;
        plan.overlay.insert(key, after);
        Ok(object)
    }

    fn render(&self, key: Key, mut document: Value, revision: u64) -> Result<Arc<Stored>, StoreError> {
        let metadata = document
            .as_object_mut()
            .ok_or_else(|| StoreError::Unstorable("it is no JSON object".to_owned()))?
            .entry("metadata")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        metadata
            .as_object_mut()
            .ok_or_else(|| StoreError::Unstorable("its metadata is no JSON object".to_owned()))?
            .insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        let json = serde_json::to_vec(&document).map_err(|error| StoreError::Unstorable(error.to_string()))?;
        let facets = (self.facets)(&key, &document);
        Ok(Arc::new(Stored { key, revision, json: Bytes::from(json), facets }))
    }

    /// Opens the file again after a failure. A batch whose commit failed may be on disk all the same (the error came
    /// after the flush): then what is on disk is published, so that nobody sees less than what a restart would show.
    fn recover(&mut self) -> Result<(), StoreError> {
        if self.journal.is_open() {
            return Ok(());
        }
        let contents = self.journal.open(self.facets)?;
        let mut state = self.memory.write();
        if contents.revision < state.revision {
            let reason = format!("it is at revision {}, after {} was written", contents.revision, state.revision);
            return Err(StoreError::Damaged { file: self.journal.path().to_owned(), reason });
        }
        if contents.revision > state.revision {
            let revision = contents.revision;
            let events = differences(state.objects(), contents, |key, document| self.render(key, document, revision))?;
            state.publish(events, revision);
        }
        tracing::info!(revision = state.revision, "the data file works again");
        Ok(())
    }
}

#[derive(Debug)]
struct Plan {
    revision: u64,
    events: Vec<Arc<Event>>,
    /// What the planned writes leave behind.
    overlay: HashMap<Key, Option<Arc<Stored>>>,
}

impl Plan {
    fn new(revision: u64) -> Self {
        Self { revision, events: Vec::new(), overlay: HashMap::new() }
    }
}

/// What leads from the objects in memory to those on disk, in the order of revisions.
fn differences<'a>(
    before: impl Iterator<Item = &'a Arc<Stored>>,
    after: Contents,
    render: impl Fn(Key, Value) -> Result<Arc<Stored>, StoreError>,
) -> Result<Vec<Arc<Event>>, StoreError> {
    let mut before: BTreeMap<Key, Arc<Stored>> = before.map(|object| (object.key.clone(), object.clone())).collect();
    let mut events = Vec::new();
    for object in after.objects {
        let previous = before.remove(&object.key);
        if previous.as_ref().is_none_or(|previous| previous.revision != object.revision) {
            let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
            events.push(Arc::new(Event { kind, object: Arc::new(object), previous }));
        }
    }
    events.sort_by_key(|event| event.revision());
    for (key, gone) in before {
        let object = render(key, gone.value())?;
        events.push(Arc::new(Event { kind: EventKind::Deleted, object, previous: Some(gone) }));
    }
    Ok(events)
}

fn answer(to: Answer, result: Result<Arc<Stored>, StoreError>) {
    // Nobody waits when the request was cancelled; the write stands all the same.
    let _cancelled = to.send(result);
}
