//! Back-off that doubles from 10 s to 5 min and starts anew after 10 quiet minutes, as the kubelet's does for restarts
//! and for image pulls.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The delay grows with every [`Backoff::grow`].
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    delay: Option<Duration>,
    grown_at: Duration,
}

impl Backoff {
    /// The delay to keep now; none when nothing failed lately.
    pub fn delay(&self, now: Duration) -> Option<Duration> {
        self.delay.filter(|_| now.saturating_sub(self.grown_at) <= FORGET_AFTER)
    }

    /// Notes one more attempt and returns the delay that follows it.
    pub fn grow(&mut self, now: Duration) -> Duration {
        let next = self.delay(now).map_or(FIRST, |delay| (delay * 2).min(LONGEST));
        self.delay = Some(next);
        self.grown_at = now;
        next
    }

    pub fn reset(&mut self) {
        self.delay = None;
    }
}

/// A duration as Go prints it (`10s`, `1m20s`, `5m0s`), since people search for these messages.
pub(crate) fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_five_minutes_and_forgets_after_ten() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.delay(Duration::ZERO), None);
        let delays: Vec<u64> = (0..7).map(|i| backoff.grow(Duration::from_secs(i)).as_secs()).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.delay(Duration::from_secs(606)), Some(LONGEST));
        assert_eq!(backoff.delay(Duration::from_secs(607)), None);
        assert_eq!(backoff.grow(Duration::from_secs(607)), FIRST);
    }

    #[test]
    fn prints_as_go_does() {
        for (seconds, text) in [(10, "10s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")] {
            assert_eq!(go_duration(Duration::from_secs(seconds)), text);
        }
    }
}
