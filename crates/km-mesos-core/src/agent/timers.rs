//! The agent's deadlines: one per name, replaced when set again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What a deadline is for. Executors and tasks are named by framework id and their own id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Connect again, or give up a silent master.
    Link,
    RecoveryEnd,
    /// Heartbeat of all executor streams.
    Heartbeat,
    /// Registration timeout or end of the shutdown grace of an executor, by its state.
    Executor(String, String),
    /// An operation's end was not acknowledged.
    Operation(String),
    /// The update in flight was not acknowledged.
    Retry(String, String),
    /// A built-in task was asked to end long enough ago.
    KillGrace(String, String),
    /// `max_completion_time` of a built-in task.
    Completion(String, String),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    by_name: BTreeMap<Timer, Duration>,
    by_time: BTreeSet<(Duration, Timer)>,
}

impl Timers {
    pub fn set(&mut self, timer: Timer, at: Duration) {
        self.cancel(&timer);
        self.by_time.insert((at, timer.clone()));
        self.by_name.insert(timer, at);
    }

    pub fn cancel(&mut self, timer: &Timer) {
        if let Some(at) = self.by_name.remove(timer) {
            self.by_time.remove(&(at, timer.clone()));
        }
    }

    pub fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub fn is_set(&self, timer: &Timer) -> bool {
        self.by_name.contains_key(timer)
    }

    pub fn pop_due(&mut self, now: Duration) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let (_, timer) = self.by_time.pop_first()?;
        self.by_name.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_set_again_moves_and_a_cancelled_one_is_gone() {
        let at = Duration::from_secs;
        let mut timers = Timers::default();
        timers.set(Timer::Link, at(5));
        timers.set(Timer::Heartbeat, at(3));
        timers.set(Timer::RecoveryEnd, at(1));
        timers.set(Timer::Link, at(2));
        timers.cancel(&Timer::RecoveryEnd);
        assert_eq!(timers.pop_due(at(1)), None);
        assert_eq!(timers.pop_due(at(9)), Some(Timer::Link));
        assert_eq!(timers.pop_due(at(9)), Some(Timer::Heartbeat));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.next(), None);
    }
}
