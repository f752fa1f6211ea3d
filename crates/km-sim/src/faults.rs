//! What goes wrong.

use std::time::Duration;

use rand::Rng;

use crate::world::{Delivery, World};

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The scheduler's stream breaks.
    SchedulerStream,
    SchedulerCrash,
    MasterCrash,
    /// An agent's link to the master breaks.
    AgentLink(usize),
    /// The same, and for a while no new one can be made.
    Partition(usize),
    /// An agent's process ends and is started again; its executors go on.
    AgentCrash(usize),
    /// All executors of a host end.
    ExecutorCrash(usize),
    ApiDown,
    WatchBreak,
}

impl World {
    pub(crate) fn plan_fault(&mut self) {
        if !self.faulty() {
            return;
        }
        let agent = self.rng.random_range(0..self.settings.agents);
        let fault = match self.rng.random_range(0..18) {
            0..=2 => Fault::SchedulerStream,
            3..=4 => Fault::SchedulerCrash,
            5 => Fault::MasterCrash,
            6..=8 => Fault::AgentLink(agent),
            9..=10 => Fault::AgentCrash(agent),
            11..=12 => Fault::ExecutorCrash(agent),
            13 => Fault::ApiDown,
            14..=15 => Fault::Partition(agent),
            _ => Fault::WatchBreak,
        };
        let pause = self.around(self.settings.fault_pause);
        self.at(pause, Delivery::Fault(fault));
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        if !self.faulty() {
            return;
        }
        self.report.faults += 1;
        self.note(|| format!("FAULT {fault:?}"));
        let pause = self.around(Duration::from_secs(5));
        match fault {
            Fault::SchedulerStream => self.break_scheduler_stream(),
            Fault::SchedulerCrash if self.scheduler.core.is_some() => {
                self.scheduler_crashes();
                self.at(pause, Delivery::SchedulerStarts);
            }
            Fault::MasterCrash if self.master.is_some() => {
                self.master_crashes();
                self.at(pause, Delivery::MasterStarts);
            }
            Fault::AgentLink(agent) => self.break_link(agent),
            Fault::Partition(agent) => {
                self.agents[agent].cut_off_until = self.now + pause * 6;
                self.break_link(agent);
            }
            Fault::AgentCrash(agent) if self.agents[agent].core.is_some() => {
                self.agent_crashes(agent);
                self.at(pause, Delivery::AgentStarts(agent));
            }
            Fault::ExecutorCrash(agent) => self.executors_crash(agent),
            Fault::ApiDown if !self.api.down => {
                self.api.down = true;
                self.at(pause, Delivery::ApiUp);
            }
            Fault::WatchBreak => self.break_watch(),
            Fault::SchedulerCrash | Fault::MasterCrash | Fault::AgentCrash(_) | Fault::ApiDown => {}
        }
    }

    /// From now on everything works; what was struck down comes back by itself.
    pub(crate) fn end_faults(&mut self) {
        self.note(|| "the faults end".to_owned());
    }
}
