//! The probes of a running attempt.

use std::time::Duration;

use super::{State, Unit};
use crate::{
    event::{Action, Level, Moment, ProbeKind},
    probe::Verdict,
};

impl Unit {
    /// Sends the probes whose time has come. Startup holds the others back.
    pub fn probe_when_due(&mut self, now: Moment, out: &mut Vec<Action>) {
        let (started, container, attempt) = (self.is_started(), self.spec.name.clone(), self.attempt);
        let State::Running(run) = &mut self.state else { return };
        if run.stop.is_some() {
            return;
        }
        for watch in &mut run.watches {
            let its_turn = started || watch.kind == ProbeKind::Startup;
            if its_turn && watch.due().is_some_and(|due| due <= now.mono) {
                watch.sent(now.mono);
                let (container, probe) = (container.clone(), Box::new(watch.probe.clone()));
                out.push(Action::Probe { container, attempt, kind: watch.kind, probe });
            }
        }
    }

    pub fn probed(
        &mut self,
        now: Moment,
        (attempt, kind): (u32, ProbeKind),
        result: Result<(), String>,
        grace: Duration,
        out: &mut Vec<Action>,
    ) {
        if attempt != self.attempt {
            return;
        }
        let State::Running(run) = &mut self.state else { return };
        let Some(watch) = run.watches.iter_mut().find(|watch| watch.kind == kind) else { return };
        let verdict = watch.answered(result.is_ok());
        let grace = match watch.probe.termination_grace_period_seconds {
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            None => grace,
        };
        if run.stop.is_some() {
            return;
        }
        if let Err(message) = result {
            let message = format!("{} probe failed: {message}", kind.title());
            self.event(out, Level::Warning, "Unhealthy", message);
        }
        if verdict == Verdict::Failed && kind != ProbeKind::Readiness {
            let name = &self.spec.name;
            let message = format!("Container {name} failed {} probe, will be restarted", kind.title().to_lowercase());
            self.event(out, Level::Normal, "Killing", message);
            self.stop(now, now.mono + grace, out);
        }
    }
}
