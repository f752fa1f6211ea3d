//! How a pod ends: by itself, by its deadline, or because somebody outside wants it.

use std::time::Duration;

use crate::{
    event::{Action, Level, Moment, Outcome, StopCause},
    machine::{Part, PodMachine, due, pod_event},
    plan::Role,
};

/// A pod that is ending.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// None: by itself.
    pub cause: Option<StopCause>,
    /// What still runs then is killed.
    pub kill_at: Duration,
}

impl PodMachine {
    pub(crate) fn stop_from_outside(&mut self, now: Moment, cause: StopCause, grace: Duration) {
        // An executor that ends has so much time in all; a pod may need less of it.
        let grace = if cause == StopCause::Shutdown { grace.min(self.grace()) } else { grace };
        let kill_at = now.mono + grace;
        // A pod that was never started has nothing to stop, but ends the same way.
        self.started = true;
        match &mut self.stop {
            Some(stop) => stop.kill_at = stop.kill_at.min(kill_at),
            None => {
                if cause == StopCause::Shutdown {
                    self.verdict = Some(("Terminated".into(), "The executor on this node was shut down".into()));
                }
                self.begin_stop(now, Some(cause), kill_at);
            }
        }
    }

    fn begin_stop(&mut self, now: Moment, cause: Option<StopCause>, kill_at: Duration) {
        self.stop = Some(Stop { cause, kill_at });
        for part in [&mut self.volumes, &mut self.sandbox] {
            if matches!(part, Part::Failed { .. }) {
                *part = Part::Failed { until: now.mono };
            }
        }
    }

    /// The pod can't run here: it fails before anything of it was started.
    pub(crate) fn give_up(&mut self, now: Moment, reason: &'static str, message: String, out: &mut Vec<Action>) {
        pod_event(out, Level::Warning, reason, message.clone());
        if self.stop.is_none() {
            self.verdict = Some((reason.to_owned(), message));
            self.begin_stop(now, None, now.mono);
        }
    }

    /// `activeDeadlineSeconds` counts from the pod's start, whatever it does.
    pub(crate) fn check_deadline(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.stop.is_some() || self.deadline.is_none_or(|deadline| deadline > now.mono) {
            return;
        }
        let message = "Pod was active on the node longer than the specified deadline".to_owned();
        pod_event(out, Level::Normal, "DeadlineExceeded", message.clone());
        self.verdict = Some(("DeadlineExceeded".into(), message));
        self.begin_stop(now, None, now.mono + self.grace());
    }

    /// A pod is through when its main containers are, or when an init container failed for good.
    pub(crate) fn check_completion(&mut self, now: Moment) {
        if self.stop.is_some() {
            return;
        }
        let init_failed = self.units.iter().any(|unit| unit.role == Role::Init && unit.is_final() && !unit.succeeded());
        let mains_ended = self.units.iter().filter(|unit| unit.role == Role::Main).all(|unit| unit.is_final());
        if init_failed || mains_ended {
            self.begin_stop(now, None, now.mono + self.grace());
        }
    }

    pub(crate) fn advance_stop(&mut self, now: Moment, out: &mut Vec<Action>) {
        let Some(kill_at) = self.stop.as_ref().map(|stop| stop.kill_at) else { return };
        self.stop_containers(now, kill_at, out);
        if self.units.iter().any(|unit| unit.is_live()) {
            return;
        }
        if remove(&mut self.sandbox, now.mono) {
            out.push(Action::RemoveSandbox);
        }
        if self.sandbox == Part::Absent && remove(&mut self.volumes, now.mono) {
            out.push(Action::RemoveVolumes);
        }
    }

    /// Main and init containers first; then the sidecars, the last started first, one by one.
    fn stop_containers(&mut self, now: Moment, kill_at: Duration, out: &mut Vec<Action>) {
        let overdue = kill_at <= now.mono;
        let announce = self.stop.as_ref().is_some_and(|stop| stop.cause.is_some());
        let mut sidecars_wait = self.units.iter().any(|unit| unit.role != Role::Sidecar && unit.is_live());
        for unit in self.units.iter_mut().rev() {
            unit.settle();
            if unit.role != Role::Sidecar || !sidecars_wait || overdue {
                if announce && unit.is_running_unstopped() {
                    let message = format!("Stopping container {}", unit.spec.name);
                    let container = Some(unit.spec.name.clone());
                    out.push(Action::Event { level: Level::Normal, reason: "Killing", message, container });
                }
                unit.stop(now, kill_at, out);
            }
            unit.kill_when_due(now, out);
            sidecars_wait |= unit.role == Role::Sidecar && unit.is_live();
        }
    }

    pub(crate) fn sandbox_gone(&mut self) {
        self.sandbox = Part::Absent;
    }

    /// The end of the pod, once nothing of it is left.
    pub(crate) fn finished(&self) -> Option<Outcome> {
        let stop = self.stop.as_ref()?;
        let live = self.units.iter().any(|unit| unit.is_live());
        if live || self.sandbox != Part::Absent || self.volumes != Part::Absent {
            return None;
        }
        Some(match stop.cause {
            Some(cause) => Outcome::Stopped(cause),
            None => match self.failure() {
                None => Outcome::Succeeded,
                Some(message) => Outcome::Failed { message },
            },
        })
    }

    /// Why the pod counts as failed, if it does. Asked when nothing runs any more.
    pub(crate) fn failure(&self) -> Option<String> {
        if let Some((reason, message)) = &self.verdict {
            return Some(format!("{reason}: {message}"));
        }
        let failed = |role| {
            self.units.iter().filter(move |unit| unit.role == role && !unit.succeeded()).map(|unit| {
                match unit.ended.first() {
                    Some(ended) => {
                        let exit = &ended.exit;
                        format!("container {} exited with code {} ({})", unit.spec.name, exit.code, exit.reason)
                    }
                    None => format!("container {} never ran", unit.spec.name),
                }
            })
        };
        failed(Role::Init).chain(failed(Role::Main)).next()
    }
}

/// Whether a part is to be removed now; then it is marked so.
fn remove(part: &mut Part, now: Duration) -> bool {
    let wanted = *part == Part::Ready || matches!(part, Part::Failed { .. }) && due(part, now);
    if wanted {
        *part = Part::Removing;
    }
    wanted
}
