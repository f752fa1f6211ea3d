//! The time of the agent's core: since the Unix epoch, but never running backwards.

use std::time::{Duration, Instant, SystemTime};

#[derive(Clone, Copy)]
pub(super) struct Clock {
    base: Duration,
    started: Instant,
}

impl Clock {
    pub fn start() -> Self {
        let base = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { base, started: Instant::now() }
    }

    pub fn now(&self) -> Duration {
        self.base + self.started.elapsed()
    }

    /// The instant of a time of this clock.
    pub fn instant(&self, at: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + at.saturating_sub(self.base))
    }

    /// Seconds since the Unix epoch at which the clock was started.
    pub fn started_at(&self) -> f64 {
        self.base.as_secs_f64()
    }
}
