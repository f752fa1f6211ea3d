//! The end of a running attempt: its pre-stop hook, SIGTERM, and SIGKILL when the grace is over.

use std::time::Duration;

use super::{KILL_AGAIN, SIGKILL, SIGTERM, State, Unit, UnitStop};
use crate::event::{Action, Hook, Level, Moment};

impl Unit {
    /// Begins to stop a running attempt (or shortens its grace). `hook`: run its pre-stop hook first.
    pub fn stop(&mut self, now: Moment, kill_at: Duration, out: &mut Vec<Action>) {
        let State::Running(run) = &mut self.state else { return };
        if let Some(stop) = &mut run.stop {
            stop.kill_at = stop.kill_at.min(kill_at);
            return;
        }
        run.stop = Some(UnitStop { kill_at, term_sent: false, next_kill: Duration::ZERO });
        let hook = self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.clone());
        match hook.filter(crate::unsupported::hook_is_supported) {
            Some(handler) if kill_at > now.mono => {
                let container = self.spec.name.clone();
                let handler = Box::new(handler);
                out.push(Action::RunHook { container, attempt: self.attempt, hook: Hook::PreStop, handler });
            }
            _ => self.terminate(out),
        }
    }

    fn terminate(&mut self, out: &mut Vec<Action>) {
        let (container, attempt) = (self.spec.name.clone(), self.attempt);
        if let State::Running(run) = &mut self.state
            && let Some(stop) = &mut run.stop
            && !stop.term_sent
        {
            stop.term_sent = true;
            out.push(Action::Signal { container, attempt, signal: SIGTERM });
        }
    }

    /// Kills a stopping attempt whose grace is over.
    pub fn kill_when_due(&mut self, now: Moment, out: &mut Vec<Action>) {
        let (container, attempt) = (self.spec.name.clone(), self.attempt);
        if let State::Running(run) = &mut self.state
            && let Some(stop) = &mut run.stop
            && stop.kill_at.max(stop.next_kill) <= now.mono
        {
            stop.term_sent = true;
            stop.next_kill = now.mono + KILL_AGAIN;
            out.push(Action::Signal { container, attempt, signal: SIGKILL });
        }
    }

    pub fn hook_finished(
        &mut self,
        now: Moment,
        attempt: u32,
        hook: Hook,
        result: Result<(), String>,
        grace: Duration,
        out: &mut Vec<Action>,
    ) {
        if attempt != self.attempt || !self.is_running() {
            return;
        }
        match (hook, result) {
            (Hook::PreStop, result) => {
                if let Err(message) = result {
                    self.event(out, Level::Warning, "FailedPreStopHook", message);
                }
                self.terminate(out);
            }
            (Hook::PostStart, Ok(())) => {
                if let State::Running(run) = &mut self.state {
                    run.hook_done = true;
                }
            }
            (Hook::PostStart, Err(message)) => {
                self.event(out, Level::Warning, "FailedPostStartHook", message);
                self.stop(now, now.mono + grace, out);
            }
        }
    }
}
