//! Which containers may run now: init containers in order, then the main ones; sidecars beside both.

use crate::{
    container::Unit,
    event::{Action, Moment},
    machine::PodMachine,
    plan::Role,
};

impl PodMachine {
    /// Whether every container before the main ones lets them start.
    pub(crate) fn is_initialized(&self) -> bool {
        self.units.iter().all(passed)
    }

    pub(crate) fn advance_containers(&mut self, now: Moment, out: &mut Vec<Action>) {
        let grace = self.grace();
        for unit in &mut self.units {
            unit.begin_when_due(now, out);
            unit.replace_when_outdated(now, grace, out);
            unit.resize_when_due(now, grace, out);
            unit.probe_when_due(now, out);
            unit.kill_when_due(now, out);
            unit.started_once |= unit.is_started();
            if !passed(unit) {
                break;
            }
        }
    }
}

/// An init container lets the next ones start by its success, a sidecar by having started once.
pub(crate) fn passed(unit: &Unit) -> bool {
    match unit.role {
        Role::Init => unit.succeeded(),
        Role::Sidecar => unit.started_once,
        Role::Main => true,
    }
}
