//! What an election is told and what it wants done.

use std::time::Duration;

/// Input. An answer must come exactly once for each request, also when it failed or its deadline passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Tick,
    /// Somebody seems to have changed the Lease: worth a look. Never coming is fine.
    Changed,
    /// Answer to [`Action::Read`]: the Lease, none when there is none, an error when it couldn't be read.
    Read(Result<Option<Record>, ()>),
    /// Answer to [`Action::Write`].
    Written(Written),
    /// A person or the end of the process asks the leader to let another one lead.
    HandOver,
    /// Answer to [`Action::StandBy`]: whatever a leader does has stopped.
    Stopped,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The Lease is as wanted, and this is it.
    Done(Record),
    /// The Lease had another version, or was there or gone already: nothing was written.
    Conflict,
    /// It may or may not have been written.
    Failed,
}

/// Output, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the Lease from the API server itself.
    Read,
    /// Write the Lease if it still is as the draft says.
    Write(Draft),
    /// Begin to act as the leader.
    Lead,
    /// Cease to act as the leader, at once, and answer [`Event::Stopped`].
    StandBy(Why),
}

/// Why a leader stands down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The renew deadline passed.
    NotRenewed,
    /// The Lease names another holder.
    TakenOver(String),
    HandedOver,
}

/// A Lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Empty when nobody holds it.
    pub holder: String,
    /// How long it counts without renewal.
    pub duration: Duration,
    /// How often the holder changed.
    pub transitions: i32,
    /// Differs after each write. Empty when it was deleted.
    pub version: String,
}

/// A Lease as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub holder: String,
    pub duration: Duration,
    pub transitions: i32,
    /// Whether the holder is another one than before, so that its time begins anew.
    pub acquired: bool,
    /// The version that must be there; none when there must be no Lease.
    pub base: Option<String>,
}

impl Draft {
    pub(super) fn claim(me: &str, duration: Duration, seen: Option<&Record>) -> Self {
        let mine = seen.is_some_and(|record| record.holder == me);
        let before = seen.map_or(-1, |record| record.transitions);
        Self {
            holder: me.to_owned(),
            duration,
            transitions: if mine { before } else { before.saturating_add(1) },
            acquired: !mine,
            base: seen.map(|record| record.version.clone()).filter(|version| !version.is_empty()),
        }
    }

    /// Nobody's, and for the shortest time that a Lease can have.
    pub(super) fn release(mine: &Record) -> Self {
        Self {
            holder: String::new(),
            duration: Duration::from_secs(1),
            transitions: mine.transitions,
            acquired: false,
            base: Some(mine.version.clone()),
        }
    }
}
