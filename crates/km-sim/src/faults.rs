//! What goes wrong.

use std::time::Duration;

use rand::Rng;

use crate::{delivery::Delivery, world::World};

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Time for one of what there is one of.
    Central,
    /// Time for one of an agent.
    OfAgents,
    SchedulerStream,
    SchedulerCrash,
    /// The scheduler reaches no API server for a while, but Mesos.
    SchedulerCutOff,
    MasterCrash,
    RivalStream,
    ApiDown,
    WatchBreak,
    /// The API server forgets its history, and watches break.
    Compaction,
    /// An agent's link to the master breaks.
    AgentLink(usize),
    /// The same, and for a while no new one can be made.
    Partition(usize),
    /// An agent's process ends and is started again; its executors go on.
    AgentCrash(usize),
    /// The machine is set up anew and comes back under another id.
    AgentReplaced(usize),
    /// The machine never comes back.
    AgentScrapped(usize),
    /// All executors of a host end.
    ExecutorCrash(usize),
    ExecutorStream(usize),
    PodWatchBreak(usize),
}

impl World {
    pub(crate) fn plan_faults(&mut self) {
        self.plan(Fault::Central, self.settings.fault_pause);
        self.plan(Fault::OfAgents, self.settings.fault_pause.map(|_| self.settings.agent_fault_pause));
    }

    fn plan(&mut self, fault: Fault, pause: Option<Duration>) {
        if let Some(pause) = pause.filter(|_| self.faulty()) {
            let pause = self.around(pause);
            self.at(pause, Delivery::Fault(fault));
        }
    }

    fn central_fault(&mut self) -> Fault {
        match self.rng.random_range(0..16) {
            0..=2 => Fault::SchedulerStream,
            3..=5 => Fault::SchedulerCrash,
            6..=7 => Fault::SchedulerCutOff,
            8..=9 => Fault::MasterCrash,
            10 => Fault::RivalStream,
            11..=12 => Fault::ApiDown,
            13 => Fault::Compaction,
            _ => Fault::WatchBreak,
        }
    }

    fn fault_of_agent(&mut self) -> Fault {
        let agent = self.rng.random_range(0..self.settings.agents);
        match self.rng.random_range(0..24) {
            0..=4 => Fault::AgentLink(agent),
            5..=8 => Fault::Partition(agent),
            9..=12 => Fault::AgentCrash(agent),
            13..=15 => Fault::ExecutorCrash(agent),
            16..=18 => Fault::ExecutorStream(agent),
            19..=21 => Fault::PodWatchBreak(agent),
            22 => Fault::AgentReplaced(agent),
            _ => Fault::AgentScrapped(agent),
        }
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        match fault {
            _ if !self.faulty() => {}
            Fault::Central => {
                let fault = self.central_fault();
                self.strike(fault);
                self.plan(Fault::Central, self.settings.fault_pause);
            }
            Fault::OfAgents => {
                let fault = self.fault_of_agent();
                self.strike(fault);
                self.plan(Fault::OfAgents, Some(self.settings.agent_fault_pause));
            }
            fault => {
                self.report.faults += 1;
                self.note(|| format!("FAULT {fault:?}"));
                self.happen(fault);
            }
        }
    }

    fn happen(&mut self, fault: Fault) {
        let pause = self.around(Duration::from_secs(5));
        let leader = self.schedulers.iter().position(|scheduler| scheduler.core.is_some());
        match (fault, leader) {
            (Fault::SchedulerStream, Some(leader)) => self.break_scheduler_stream(leader),
            (Fault::SchedulerCrash, Some(leader)) => self.scheduler_ends(leader),
            (Fault::SchedulerCutOff, Some(leader)) => {
                self.schedulers[leader].cut_off_until = self.now + pause * 4;
                self.break_watches(leader);
            }
            (Fault::WatchBreak, Some(leader)) => self.break_watches(leader),
            (Fault::MasterCrash, _) if self.master.is_some() => {
                self.master_crashes();
                self.at(pause, Delivery::MasterStarts);
            }
            (Fault::RivalStream, _) if self.settings.rivals > 0 => {
                let rival = self.rng.random_range(0..self.settings.rivals);
                self.break_rival_stream(rival);
            }
            (Fault::ApiDown, _) if !self.api.down => {
                self.api.down = true;
                self.at(pause, Delivery::ApiUp);
                self.break_all_watches();
            }
            (Fault::Compaction, _) => {
                self.api.compact();
                self.break_all_watches();
            }
            (fault, _) => self.happen_to_agent(fault, pause),
        }
    }

    fn happen_to_agent(&mut self, fault: Fault, pause: Duration) {
        match fault {
            Fault::AgentLink(agent) => self.break_link(agent),
            Fault::Partition(agent) => {
                self.hosts[agent].cut_off_until = self.now + pause * 6;
                self.break_link(agent);
            }
            Fault::AgentCrash(agent) if self.hosts[agent].core.is_some() => {
                self.agent_crashes(agent);
                self.at(pause, Delivery::AgentStarts(agent));
            }
            Fault::AgentReplaced(agent) if self.hosts[agent].core.is_some() => {
                self.agent_is_replaced(agent);
                self.at(pause * 3, Delivery::AgentStarts(agent));
            }
            // Most machines stay, so that there is room for all pods.
            Fault::AgentScrapped(agent) if self.hosts[agent].core.is_some() && self.few_are_scrapped() => {
                self.agent_is_replaced(agent);
                self.hosts[agent].scrapped = true;
            }
            Fault::ExecutorCrash(agent) => self.executors_crash(agent),
            Fault::ExecutorStream(agent) => self.break_executor_stream(agent),
            Fault::PodWatchBreak(agent) => self.break_pod_watches(agent),
            _ => {}
        }
    }

    fn few_are_scrapped(&self) -> bool {
        let scrapped = self.hosts.iter().filter(|host| host.scrapped).count();
        (scrapped + 1) * 4 <= self.hosts.len()
    }

    fn break_all_watches(&mut self) {
        for process in 0..self.schedulers.len() {
            self.break_watches(process);
        }
        for agent in 0..self.hosts.len() {
            self.break_pod_watches(agent);
        }
    }

    /// From now on everything works; what was struck down comes back by itself.
    pub(crate) fn end_faults(&mut self) {
        self.note(|| "the faults end".to_owned());
        for host in &mut self.hosts {
            host.cut_off_until = Duration::ZERO;
        }
        for scheduler in &mut self.schedulers {
            scheduler.cut_off_until = Duration::ZERO;
        }
        self.reconfigure_at_last();
    }
}
