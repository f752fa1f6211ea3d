//! How long to wait before the next attempt: exponential, with full jitter, so that many clients don't come at once.

use std::time::Duration;

/// Waiting times of one series of attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    ceiling: Duration,
    cap: Duration,
}

impl Backoff {
    /// The first wait is at most `base`, each further one at most twice the one before, and never more than `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { ceiling: base.min(cap), cap }
    }

    /// The next wait. `random` is from 0 to 1, evenly distributed.
    pub fn next(&mut self, random: f64) -> Duration {
        let wait = self.ceiling.mul_f64(random.clamp(0.0, 1.0));
        self.ceiling = self.ceiling.saturating_mul(2).min(self.cap);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(500));
        let longest: Vec<u128> = (0..5).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(longest, [100, 200, 400, 500, 500]);
        assert_eq!(backoff.next(0.5), Duration::from_millis(250));
        assert_eq!(backoff.next(0.0), Duration::ZERO);
        assert_eq!(Backoff::new(Duration::from_secs(9), Duration::from_secs(1)).next(1.0), Duration::from_secs(1));
    }
}
