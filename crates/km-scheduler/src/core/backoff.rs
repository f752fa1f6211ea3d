//! Growing pauses by pod, with jitter.

use std::{collections::BTreeMap, time::Duration};

use km_podtask::PodKey;

/// The pauses of pods whose launch failed. The bound of a pod's pause doubles with each one, from the first to the
/// longest; the pause itself lies between half the bound and the bound, so that pods that failed together don't come
/// back together.
#[derive(Default)]
pub(super) struct Backoff {
    entries: BTreeMap<PodKey, Entry>,
    drawn: u64,
}

struct Entry {
    bound: Duration,
    /// When its pause is over.
    until: Duration,
}

impl Backoff {
    /// The next pause of a pod.
    pub fn next(&mut self, now: Duration, key: &PodKey, (first, longest): (Duration, Duration)) -> Duration {
        // One that was left alone for longer than the longest pause, after its own, starts again.
        self.entries.retain(|_, entry| entry.until + longest >= now);
        self.drawn = self.drawn.wrapping_add(1);
        let entry = self.entries.entry(key.clone()).or_insert(Entry { bound: first, until: now });
        let pause = entry.bound.mul_f64(0.5 + share(key, self.drawn) / 2.0);
        entry.bound = (entry.bound * 2).min(longest);
        entry.until = now + pause;
        pause
    }

    pub fn forget(&mut self, key: &PodKey) {
        self.entries.remove(key);
    }
}

/// A number from 0 up to 1 that differs for each pod and draw, and is the same in a replay.
fn share(key: &PodKey, drawn: u64) -> f64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (key, drawn).hash(&mut hasher);
    // 53 bits are what a float holds exactly.
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

    #[test]
    fn pauses_grow_within_their_bounds_and_differ() {
        let mut backoff = Backoff::default();
        let mut seen = BTreeSet::new();
        for number in 0..20 {
            let key = PodKey::new("default", &format!("pod-{number}"));
            for bound in [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs) {
                let pause = backoff.next(Duration::ZERO, &key, BOUNDS);
                assert!(pause >= bound / 2 && pause < bound, "{pause:?} of {bound:?}");
                seen.insert(pause);
            }
        }
        assert_eq!(seen.len(), 160, "no two are the same");
    }

    #[test]
    fn a_pod_left_alone_starts_again() {
        let key = PodKey::new("default", "web");
        let after = |idle: u64| {
            let mut backoff = Backoff::default();
            for _ in 0..4 {
                backoff.next(Duration::ZERO, &key, BOUNDS);
            }
            backoff.next(Duration::from_secs(idle), &key, BOUNDS)
        };
        assert!(after(60) >= Duration::from_secs(8));
        assert!(after(69) < Duration::from_secs(1));
        let mut backoff = Backoff::default();
        for _ in 0..4 {
            backoff.next(Duration::ZERO, &key, BOUNDS);
        }
        backoff.forget(&key);
        assert!(backoff.next(Duration::ZERO, &key, BOUNDS) < Duration::from_secs(1));
    }
}
