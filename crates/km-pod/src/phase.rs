//! The pod's phase. A terminal one never changes again.

use crate::{machine::PodMachine, plan::Role};

pub(crate) const PENDING: &str = "Pending";
pub(crate) const RUNNING: &str = "Running";
pub(crate) const SUCCEEDED: &str = "Succeeded";
pub(crate) const FAILED: &str = "Failed";

impl PodMachine {
    /// The phase now; notes it when it is terminal.
    pub(crate) fn settle_phase(&mut self) -> &'static str {
        let live = self.units.iter().any(|unit| unit.is_live());
        if self.terminal.is_none() && self.stop.is_some() && !live {
            self.terminal = Some(if self.failure().is_none() { SUCCEEDED } else { FAILED });
        }
        self.terminal.unwrap_or_else(|| self.living_phase())
    }

    /// Pending until every main container was started once.
    fn living_phase(&self) -> &'static str {
        let mut mains = self.units.iter().filter(|unit| unit.role == Role::Main);
        let all_began = mains.all(|unit| unit.is_running() || !unit.ended.is_empty());
        if self.is_initialized() && all_began { RUNNING } else { PENDING }
    }
}
