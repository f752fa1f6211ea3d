//! The work queue: each key at most once, one run at a time, later and later after failures.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const FIRST_DELAY_MS: u64 = 50;
const LONGEST_DELAY_MS: u64 = 60_000;

#[derive(Debug, Default)]
struct State {
    /// When it is due, if it waits.
    due: Option<Timestamp>,
    running: bool,
    /// Asked for again while it ran.
    again: Option<Timestamp>,
    failures: u32,
}

/// A queue of keys.
#[derive(Debug)]
pub(super) struct Queue<K> {
    states: BTreeMap<K, State>,
    due: BTreeSet<(Timestamp, K)>,
    seed: u64,
}

impl<K: Ord + Clone> Queue<K> {
    /// `seed` decides the jitter of delays.
    pub(super) fn new(seed: u64) -> Self {
        Self { states: BTreeMap::new(), due: BTreeSet::new(), seed: seed | 1 }
    }

    /// Asks for a run at `at`, or earlier if that was asked for already.
    pub(super) fn add(&mut self, key: &K, at: Timestamp) {
        let state = self.states.entry(key.clone()).or_default();
        if state.running {
            state.again = Some(state.again.map_or(at, |other| other.min(at)));
            return;
        }
        if state.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = state.due.replace(at) {
            self.due.remove(&(due, key.clone()));
        }
        self.due.insert((at, key.clone()));
    }

    /// The next key that is due. It does not come again before `done`.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<K> {
        if self.wakes_at()? > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(state) = self.states.get_mut(&key) {
            state.due = None;
            state.running = true;
        }
        Some(key)
    }

    /// The run of a key ended. After a failure it comes again by itself.
    pub(super) fn done(&mut self, key: &K, succeeded: bool, now: Timestamp) {
        let Some(state) = self.states.get_mut(key) else { return };
        state.running = false;
        let again = state.again.take();
        state.failures = if succeeded { 0 } else { state.failures + 1 };
        let failures = state.failures;
        match (succeeded, again) {
            (true, None) => {
                self.states.remove(key);
            }
            (true, Some(at)) => self.add(key, at),
            (false, _) => {
                let at = now + self.delay(failures);
                self.add(key, at);
            }
        }
    }

    /// When the next key is due.
    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Doubles with each failure, between half and all of it by chance.
    fn delay(&mut self, failures: u32) -> Duration {
        let whole = FIRST_DELAY_MS.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LONGEST_DELAY_MS);
        // xorshift64: chance enough to spread retries.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        Duration::from_millis(whole / 2 + self.seed % (whole / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn a_key_runs_once_at_a_time_and_again_when_asked_meanwhile() {
        let mut queue = Queue::new(1);
        queue.add(&"a", at(5));
        queue.add(&"a", at(0));
        assert_eq!(queue.next(at(0)), Some("a"));
        assert_eq!(queue.next(at(9)), None);
        queue.add(&"a", at(1));
        assert_eq!(queue.next(at(9)), None, "it still runs");
        queue.done(&"a", true, at(9));
        assert_eq!(queue.next(at(9)), Some("a"));
        queue.done(&"a", true, at(9));
        assert_eq!(queue.wakes_at(), None);
    }

    #[test]
    fn failures_make_it_wait_longer() {
        let mut queue = Queue::new(7);
        queue.add(&"a", at(0));
        let mut now = at(0);
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            assert_eq!(queue.next(now), Some("a"));
            queue.done(&"a", false, now);
            let next = queue.wakes_at().unwrap();
            let delay = Duration::from_millis(u64::try_from(next.as_millisecond() - now.as_millisecond()).unwrap());
            assert!(delay >= Duration::from_millis(25) && delay <= Duration::from_millis(LONGEST_DELAY_MS));
            longest = longest.max(delay);
            now = next;
        }
        assert!(longest > Duration::from_secs(29));
        assert_eq!(queue.next(now), Some("a"));
        queue.done(&"a", true, now);
        assert_eq!(queue.wakes_at(), None, "success forgets the failures");
    }
}
