//! The pod's conditions. Those of others (readiness gates) are kept and heeded.

use k8s_openapi::{api::core::v1::PodCondition, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use crate::{
    container::{Resize, Unit},
    containers::passed,
    event::Moment,
    machine::{Part, PodMachine},
    phase::SUCCEEDED,
    plan::Role,
};

const OURS: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
/// Conditions that are there only as long as a resize waits or is being done.
pub const PASSING: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

/// Status, reason and message of a condition.
type Verdict = (bool, &'static str, String);

impl PodMachine {
    /// Takes over the conditions that others set.
    pub(crate) fn adopt_conditions(&mut self, theirs: Vec<PodCondition>) {
        let ours = |one: &PodCondition| OURS.iter().chain(&PASSING).any(|kind| *kind == one.type_);
        self.conditions.retain(ours);
        self.conditions.extend(theirs.into_iter().filter(|condition| !ours(condition)));
    }

    pub(crate) fn refresh_conditions(&mut self, now: Moment) {
        let ready_to_start = (self.sandbox == Part::Ready, "", String::new());
        let initialized = self.initialized();
        let containers_ready = self.containers_ready();
        let ready = self.pod_ready(&containers_ready);
        let scheduled = (true, "", String::new());
        for (kind, verdict) in OURS.into_iter().zip([ready_to_start, initialized, ready, containers_ready, scheduled]) {
            set(&mut self.conditions, kind, verdict, now.wall);
        }
        for (kind, verdict) in PASSING.into_iter().zip([self.resize_pending(), self.resize_in_progress()]) {
            match verdict {
                Some(verdict) => {
                    set(&mut self.conditions, kind, verdict, now.wall).observed_generation =
                        self.pod.metadata.generation;
                }
                None => self.conditions.retain(|condition| condition.type_ != kind),
            }
        }
    }

    /// A refused resize never fits later, as tasks don't grow: `Deferred` would promise too much.
    fn resize_pending(&self) -> Option<Verdict> {
        let message = self.refusal.clone().filter(|_| self.terminal.is_none())?;
        Some((true, "Infeasible", message))
    }

    fn resize_in_progress(&self) -> Option<Verdict> {
        let resizing = || self.units.iter().filter(|unit| unit.is_resizing());
        resizing().next()?;
        let failed = resizing().find_map(|unit| match &unit.resize {
            Resize::Failed { message, .. } => Some(message.clone()),
            _ => None,
        });
        Some(match failed {
            Some(message) => (true, "Error", message),
            None => (true, "", String::new()),
        })
    }

    fn initialized(&self) -> Verdict {
        if self.terminal == Some(SUCCEEDED) {
            return (true, "PodCompleted", String::new());
        }
        let waiting = names(self.units.iter().filter(|unit| !passed(unit)));
        if waiting.is_empty() {
            return (true, "", String::new());
        }
        (false, "ContainersNotInitialized", format!("containers with incomplete status: [{waiting}]"))
    }

    fn containers_ready(&self) -> Verdict {
        match self.terminal {
            Some(SUCCEEDED) => return (false, "PodCompleted", String::new()),
            Some(_) => return (false, "PodFailed", String::new()),
            None => {}
        }
        let unready = names(self.units.iter().filter(|unit| unit.role != Role::Init && !unit.is_ready()));
        if unready.is_empty() && self.is_initialized() {
            return (true, "", String::new());
        }
        (false, "ContainersNotReady", format!("containers with unready status: [{unready}]"))
    }

    fn pod_ready(&self, containers_ready: &Verdict) -> Verdict {
        if !containers_ready.0 {
            return containers_ready.clone();
        }
        let is_true = |kind: &str| self.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
        let gates = self.spec().readiness_gates.iter().flatten();
        let closed: Vec<&str> = gates.map(|gate| gate.condition_type.as_str()).filter(|kind| !is_true(kind)).collect();
        if closed.is_empty() {
            return (true, "", String::new());
        }
        (false, "ReadinessGatesNotReady", format!("readiness gates that are not True: {}", closed.join(", ")))
    }
}

fn names<'a>(units: impl Iterator<Item = &'a Unit>) -> String {
    units.map(|unit| unit.spec.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Sets a condition; its transition time moves only with its status.
fn set<'a>(
    conditions: &'a mut Vec<PodCondition>,
    kind: &str,
    (status, reason, message): Verdict,
    now: Timestamp,
) -> &'a mut PodCondition {
    let status = if status { "True" } else { "False" };
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let index = conditions.iter().position(|condition| condition.type_ == kind).unwrap_or_else(|| {
        conditions.push(PodCondition { type_: kind.into(), ..Default::default() });
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    if condition.status != status {
        condition.status = status.into();
        condition.last_transition_time = Some(Time(now));
    }
    condition.reason = text(reason);
    condition.message = text(&message);
    condition
}
