//! What a replica controller has asked for and not yet seen in its watch.
//!
//! Without this a slow watch makes it count too few pods and create more. Until all is seen (or five minutes passed, in
//! case an event was lost) it does not create or delete again.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// After this time what was not seen is not waited for any more.
const GIVE_UP_SECONDS: i64 = 300;

#[derive(Debug)]
struct Waiting {
    creates: usize,
    deletes: BTreeSet<String>,
    since: Timestamp,
}

/// Expectations per controller.
#[derive(Debug)]
pub(super) struct Expectations<K> {
    waiting: BTreeMap<K, Waiting>,
}

impl<K: Ord + Clone> Expectations<K> {
    pub(super) fn new() -> Self {
        Self { waiting: BTreeMap::new() }
    }

    /// Before the actions are carried out: so many creates and the deletes of these uids are to be seen.
    pub(super) fn expect(&mut self, key: &K, creates: usize, deletes: impl Iterator<Item = String>, now: Timestamp) {
        let waiting = Waiting { creates, deletes: deletes.collect(), since: now };
        if waiting.creates > 0 || !waiting.deletes.is_empty() {
            self.waiting.insert(key.clone(), waiting);
        }
    }

    /// A pod was seen for the first time, or its creation failed.
    pub(super) fn created(&mut self, key: &K) {
        self.lower(key, |waiting| waiting.creates = waiting.creates.saturating_sub(1));
    }

    /// A pod was seen going, or its deletion failed.
    pub(super) fn deleted(&mut self, key: &K, uid: &str) {
        self.lower(key, |waiting| {
            waiting.deletes.remove(uid);
        });
    }

    /// Whether everything was seen.
    pub(super) fn met(&self, key: &K, now: Timestamp) -> bool {
        let Some(waiting) = self.waiting.get(key) else { return true };
        now.as_second() - waiting.since.as_second() > GIVE_UP_SECONDS
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.waiting.remove(key);
    }

    fn lower(&mut self, key: &K, change: impl FnOnce(&mut Waiting)) {
        let Some(waiting) = self.waiting.get_mut(key) else { return };
        change(waiting);
        if waiting.creates == 0 && waiting.deletes.is_empty() {
            self.waiting.remove(key);
        }
    }
}
