//! Changes of a running attempt's resources and image: in place where that is allowed, otherwise by a new attempt.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::Unit;
use crate::event::{Action, Level, Moment};

/// A change that the runtime refused (less memory than is in use, say) is tried again after this long.
const RETRY: Duration = Duration::from_secs(10);

/// A change of resources on its way to the runtime.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Resize {
    #[default]
    Idle,
    Sent(Box<ResourceRequirements>),
    Failed {
        message: String,
        until: Duration,
    },
}

impl Unit {
    /// What the pod was granted for this container.
    pub fn granted(&self) -> ResourceRequirements {
        self.spec.resources.clone().unwrap_or_default()
    }

    /// Grants other resources; a running attempt gets them next.
    pub fn grant(&mut self, resources: Option<ResourceRequirements>) {
        self.spec.resources = resources;
        if let Resize::Failed { .. } = self.resize {
            self.resize = Resize::Idle;
        }
    }

    /// Whether a running attempt has other resources than were granted.
    pub fn is_resizing(&self) -> bool {
        self.is_running_unstopped() && self.applied != self.granted()
    }

    /// Ends a running attempt of an older image; the next one follows at once.
    pub fn replace_when_outdated(&mut self, now: Moment, grace: Duration, out: &mut Vec<Action>) {
        if self.is_running_unstopped() && self.is_outdated() {
            self.replace("definition changed, will be restarted", now, grace, out);
        }
    }

    fn replace(&mut self, why: &str, now: Moment, grace: Duration, out: &mut Vec<Action>) {
        let message = format!("Container {} {why}", self.spec.name);
        self.event(out, Level::Normal, "Killing", message);
        self.replaced = true;
        self.stop(now, now.mono + grace, out);
    }

    /// Brings a running attempt to the granted resources.
    pub fn resize_when_due(&mut self, now: Moment, grace: Duration, out: &mut Vec<Action>) {
        let waits = match &self.resize {
            Resize::Idle => false,
            Resize::Sent(_) => true,
            Resize::Failed { until, .. } => *until > now.mono,
        };
        if waits || !self.is_resizing() {
            return;
        }
        let granted = self.granted();
        if needs_restart(&self.spec, &self.applied, &granted) {
            self.replace("resize requires restart", now, grace, out);
            return;
        }
        self.resize = Resize::Sent(Box::new(granted.clone()));
        let (container, attempt) = (self.spec.name.clone(), self.attempt);
        out.push(Action::ResizeContainer { container, attempt, resources: Box::new(granted) });
    }

    pub fn resized(&mut self, now: Moment, attempt: u32, result: Result<(), String>, out: &mut Vec<Action>) {
        let Resize::Sent(resources) = &self.resize else { return };
        if attempt != self.attempt {
            return;
        }
        match result {
            Ok(()) => {
                self.applied = (**resources).clone();
                self.resize = Resize::Idle;
                self.event(out, Level::Normal, "ResizeCompleted", format!("Container {} was resized", self.spec.name));
            }
            Err(message) => {
                let until = now.mono + RETRY;
                self.event(out, Level::Warning, "ResizeError", message.clone());
                self.resize = Resize::Failed { message, until };
            }
        }
    }
}

/// Whether the container's resize policy wants a new attempt for what changed (Kubernetes docs, "Resize CPU and Memory
/// Resources assigned to Containers").
fn needs_restart(spec: &Container, from: &ResourceRequirements, to: &ResourceRequirements) -> bool {
    spec.resize_policy.iter().flatten().any(|policy| {
        let amount = |list: &Option<BTreeMap<String, Quantity>>| {
            list.as_ref().and_then(|list| list.get(&policy.resource_name)).cloned()
        };
        let changed = amount(&from.requests) != amount(&to.requests) || amount(&from.limits) != amount(&to.limits);
        changed && policy.restart_policy == "RestartContainer"
    })
}
