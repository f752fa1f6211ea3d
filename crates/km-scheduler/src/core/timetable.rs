//! What is due when: the earliest time is at hand, however much waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Times by key. Everything costs the logarithm of the number of entries.
#[derive(Debug)]
pub(super) struct Timetable<K> {
    times: BTreeMap<K, Duration>,
    order: BTreeMap<Duration, BTreeSet<K>>,
}

impl<K> Default for Timetable<K> {
    fn default() -> Self {
        Self { times: BTreeMap::new(), order: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Timetable<K> {
    /// Notes a time, in place of the one before; none takes the entry out.
    pub fn set(&mut self, key: &K, at: Option<Duration>) {
        let before = self.times.get(key).copied();
        if before == at {
            return;
        }
        if let Some(before) = before
            && let Some(keys) = self.order.get_mut(&before)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.order.remove(&before);
            }
        }
        match at {
            Some(at) => {
                self.order.entry(at).or_default().insert(key.clone());
                match self.times.get_mut(key) {
                    Some(time) => *time = at,
                    None => _ = self.times.insert(key.clone(), at),
                }
            }
            None => _ = self.times.remove(key),
        }
    }

    pub fn get(&self, key: &K) -> Option<Duration> {
        self.times.get(key).copied()
    }

    /// The earliest time.
    pub fn first(&self) -> Option<Duration> {
        self.order.first_key_value().map(|(at, _)| *at)
    }

    /// The earliest time after another.
    pub fn first_after(&self, time: Duration) -> Option<Duration> {
        self.after(time).next().map(|(at, _)| *at)
    }

    /// What is due at `now`, ordered by key.
    pub fn due(&self, now: Duration) -> Vec<K> {
        let mut due: Vec<K> = self.order.range(..=now).flat_map(|(_, keys)| keys).cloned().collect();
        due.sort_unstable();
        due
    }

    /// What is due later than a time, in the order of time.
    pub fn later(&self, time: Duration) -> Vec<K> {
        self.after(time).flat_map(|(_, keys)| keys).cloned().collect()
    }

    /// All entries.
    pub fn times(&self) -> &BTreeMap<K, Duration> {
        &self.times
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn after(&self, time: Duration) -> impl Iterator<Item = (&Duration, &BTreeSet<K>)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.order.range((Excluded(time), Unbounded))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    proptest! {
        /// Whatever is noted, changed and taken out: the answers are those of looking through all entries.
        #[test]
        fn it_answers_as_a_full_scan_does(
            changes in vec((0..6_u8, option::of(0..8_u64)), 0..40),
            now in 0..8_u64,
        ) {
            let now = Duration::from_secs(now);
            let mut table = Timetable::default();
            let mut all: BTreeMap<u8, Duration> = BTreeMap::new();
            for (key, at) in changes {
                let at = at.map(Duration::from_secs);
                table.set(&key, at);
                match at {
                    Some(at) => all.insert(key, at),
                    None => all.remove(&key),
                };
                let keys = |wanted: &dyn Fn(Duration) -> bool| -> BTreeSet<u8> {
                    all.iter().filter(|(_, at)| wanted(**at)).map(|(key, _)| *key).collect()
                };
                prop_assert_eq!(table.get(&key), all.get(&key).copied());
                prop_assert_eq!(table.times(), &all);
                prop_assert_eq!(table.first(), all.values().min().copied());
                prop_assert_eq!(table.first_after(now), all.values().filter(|at| **at > now).min().copied());
                prop_assert_eq!(table.due(now), keys(&|at| at <= now).into_iter().collect::<Vec<_>>());
                prop_assert_eq!(table.later(now).into_iter().collect::<BTreeSet<_>>(), keys(&|at| at > now));
            }
        }
    }
}
