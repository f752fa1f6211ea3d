//! When a running container is probed, and what the answers add up to.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};

use crate::event::ProbeKind;

/// One probe of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub kind: ProbeKind,
    pub probe: Probe,
    next_at: Duration,
    in_flight: bool,
    successes: i32,
    failures: i32,
    /// Whether it counts as passed: liveness starts so, startup and readiness don't.
    pub passed: bool,
}

/// What an answer changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Unchanged,
    Passed,
    /// The failure threshold is reached.
    Failed,
}

impl Watch {
    fn new(kind: ProbeKind, probe: Probe, started: Duration) -> Self {
        let delay = seconds(probe.initial_delay_seconds, 0);
        Self {
            kind,
            probe,
            next_at: started + delay,
            in_flight: false,
            successes: 0,
            failures: 0,
            passed: kind == ProbeKind::Liveness,
        }
    }

    /// When it is to be sent next; none while an answer is awaited or when it has done its work.
    pub fn due(&self) -> Option<Duration> {
        let finished = self.kind == ProbeKind::Startup && self.passed;
        (!self.in_flight && !finished).then_some(self.next_at)
    }

    /// Notes that it was sent.
    pub fn sent(&mut self, now: Duration) {
        self.in_flight = true;
        self.next_at = now + seconds(self.probe.period_seconds, 10);
    }

    /// Counts an answer. One that was not asked for changes nothing.
    pub fn answered(&mut self, ok: bool) -> Verdict {
        if !self.in_flight {
            return Verdict::Unchanged;
        }
        self.in_flight = false;
        if ok {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            if !self.passed && self.successes >= self.probe.success_threshold.unwrap_or(1) {
                self.passed = true;
                return Verdict::Passed;
            }
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
            if self.failures >= self.probe.failure_threshold.unwrap_or(3) {
                self.passed = false;
                self.failures = 0;
                return Verdict::Failed;
            }
        }
        Verdict::Unchanged
    }
}

/// The probes of a container that this node can send (see [`crate::unsupported`] for the others).
pub(crate) fn watches(container: &Container, started: Duration) -> Vec<Watch> {
    [
        (ProbeKind::Startup, &container.startup_probe),
        (ProbeKind::Liveness, &container.liveness_probe),
        (ProbeKind::Readiness, &container.readiness_probe),
    ]
    .into_iter()
    .filter_map(|(kind, probe)| Some((kind, probe.clone()?)))
    .filter(|(_, probe)| probe.http_get.is_some() || probe.tcp_socket.is_some())
    .map(|(kind, probe)| Watch::new(kind, probe, started))
    .collect()
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::TCPSocketAction;

    use super::*;

    #[test]
    fn thresholds_count_in_a_row() {
        let probe = Probe {
            tcp_socket: Some(TCPSocketAction::default()),
            success_threshold: Some(2),
            failure_threshold: Some(2),
            ..Default::default()
        };
        let mut watch = Watch::new(ProbeKind::Readiness, probe, Duration::ZERO);
        let mut answer = |ok| {
            watch.sent(Duration::ZERO);
            watch.answered(ok)
        };
        let answers = [true, false, true, true, false, true, false, false].map(&mut answer);
        use Verdict::*;
        assert_eq!(answers, [Unchanged, Unchanged, Unchanged, Passed, Unchanged, Unchanged, Unchanged, Failed]);
        assert_eq!(watch.answered(false), Unchanged, "an answer nobody waits for");
    }
}
