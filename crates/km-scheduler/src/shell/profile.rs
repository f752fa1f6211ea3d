//! Where the scheduler's time goes: how long its core and its shell took, by kind of event.
//!
//! A sampling profiler would need the symbols that release builds leave out, so the loop itself keeps the time.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::core::Event;

/// Time spent by what it was spent for, since the start.
#[derive(Clone, Default)]
pub struct Profile(Arc<Mutex<BTreeMap<(&'static str, &'static str), Duration>>>);

/// A profile at some moment.
pub type Taken = BTreeMap<(&'static str, &'static str), Duration>;

impl Profile {
    /// `part` is `decide` or `act`.
    pub fn add(&self, part: &'static str, kind: &'static str, time: Duration) {
        *self.lock().entry((part, kind)).or_default() += time;
    }

    pub fn taken(&self) -> Taken {
        self.lock().clone()
    }

    /// Lines of `scheduler;part;kind MICROSECONDS`, as flame graph tools read them, of the time since `before`.
    pub fn folded_since(&self, before: &Taken) -> String {
        let mut text = String::new();
        for ((part, kind), time) in self.taken() {
            let spent = time.saturating_sub(before.get(&(part, kind)).copied().unwrap_or_default());
            if !spent.is_zero() {
                let _infallible = writeln!(text, "scheduler;{part};{kind} {}", spent.as_micros());
            }
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // The map is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of an event in profiles.
pub fn kind(event: &Event) -> &'static str {
    match event {
        Event::Offers(_) | Event::Rescinded(_) => "offers",
        Event::Update(_) => "updates",
        Event::PodApplied(_) | Event::PodDeleted(_) => "pods",
        Event::NodeApplied(_) | Event::NodeDeleted(_) => "nodes",
        Event::Api { .. } => "replies",
        Event::AcceptResult { .. } => "launches",
        Event::Tick => "time",
        _ => "others",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_holds_what_was_spent_meanwhile() {
        let profile = Profile::default();
        profile.add("decide", "pods", Duration::from_micros(5));
        let before = profile.taken();
        assert_eq!(profile.folded_since(&before), "");
        profile.add("decide", "pods", Duration::from_micros(7));
        profile.add("act", "pods", Duration::from_micros(2));
        assert_eq!(profile.folded_since(&before), "scheduler;act;pods 2\nscheduler;decide;pods 7\n");
    }
}
