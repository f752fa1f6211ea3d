//! The two clocks, read in one place.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use km_pod::Moment;

/// Monotonic time since its making, beside the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub fn mono(self) -> Duration {
        self.start.elapsed()
    }

    pub fn moment(self) -> Moment {
        // Kubernetes keeps whole seconds; a finer start would not compare equal with what the server returns.
        let now = Timestamp::now();
        Moment { mono: self.mono(), wall: Timestamp::from_second(now.as_second()).unwrap_or(now) }
    }

    /// Waits until that monotonic time.
    pub async fn sleep_until(self, at: Duration) {
        tokio::time::sleep_until((self.start + at).into()).await;
    }
}
