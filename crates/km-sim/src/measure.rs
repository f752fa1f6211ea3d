//! What cores cost: of a run in all, and of what a large cluster fears, once everything rests.

use std::{collections::BTreeMap, time::Duration};

use km_scheduler::core::{Event, Request};

use crate::{Meter, Violation, world::World};

/// How long the tasks of a whole reconciliation are waited for at most.
const RECONCILIATION: Duration = Duration::from_secs(600);

/// How often, and the time in all, by kind of event.
pub type Costs = BTreeMap<&'static str, (u64, Duration)>;

/// What was measured. Times are those of [`Meter::time`] unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Of the scheduler's core, and of the embedded master's.
    pub scheduler: Costs,
    pub master: Costs,
    /// Of the scheduler's core until everything ran, without the master's lists of agents, which come with time.
    pub placing: Duration,
    /// Bytes that ended with the scheduler's core: all but the pods and nodes themselves.
    pub memory: usize,
    /// Bytes of the pods and nodes, which here are the API server's.
    pub objects: usize,
    /// Of the scheduler's core for a reconciliation of all tasks, and the tasks.
    pub reconciliation: Duration,
    pub reconciled: u64,
    /// Of the scheduler's core for a list of all pods and nodes that brings nothing new.
    pub list: Duration,
    /// Of each process that led and placed something: the virtual time from its election to its first placement, and what
    /// its core cost until then.
    pub first_placements: Vec<(Duration, Duration)>,
}

impl World {
    /// What everything at rest costs. Each step leaves everything at rest.
    pub(crate) fn measure(&mut self) -> Result<(), Box<Violation>> {
        let Some(meter) = self.settings.meter else { return Ok(()) };
        let lists = self.report.measured.scheduler.get("agents").map(|(_, time)| *time).unwrap_or_default();
        self.report.measured.placing = total(&self.report.measured.scheduler) - lists;
        self.measure_reconciliation()?;
        for process in 0..self.schedulers.len() {
            let before = total(&self.report.measured.scheduler);
            self.list_anew(process);
            self.report.measured.list = total(&self.report.measured.scheduler) - before;
        }
        self.come_to_rest()?;
        self.measure_objects(meter);
        self.create_pod();
        for process in 0..self.schedulers.len() {
            let held = (meter.memory)();
            self.schedulers[process].core = None;
            self.report.measured.memory += held.saturating_sub((meter.memory)());
            self.scheduler_ends(process);
        }
        self.come_to_rest()?;
        Ok(())
    }

    /// Asks for all tasks, and waits until something was heard of each.
    fn measure_reconciliation(&mut self) -> Result<(), Box<Violation>> {
        let cost = |world: &Self| {
            let of = |kind| world.report.measured.scheduler.get(kind).copied().unwrap_or_default();
            let ((count, updates), (_, request), (_, ticks)) = (of("update"), of("request"), of("tick"));
            (count, updates + request + ticks)
        };
        let (count, before) = cost(self);
        let tasks = u64::try_from(self.runs.tasks.len()).unwrap_or(u64::MAX);
        for process in 0..self.schedulers.len() {
            self.scheduler_event(process, Event::Request(Request::Explicit));
        }
        let give_up = self.now + RECONCILIATION;
        while cost(self).0 < count + tasks {
            if self.now >= give_up {
                let heard = cost(self).0 - count;
                self.violate(|| format!("of {tasks} tasks {heard} were reconciled"));
            }
            self.run_until(self.now + Duration::from_secs(1))?;
        }
        let (after, spent) = cost(self);
        self.report.measured.reconciled = after - count;
        self.report.measured.reconciliation = spent - before;
        Ok(())
    }

    /// Copies of all are made to see what they take.
    fn measure_objects(&mut self, meter: Meter) {
        let before = (meter.memory)();
        let pods: Vec<_> = self.api.pods.values().map(|pod| Box::new((**pod).clone())).collect();
        let nodes: Vec<_> = self.api.nodes.values().map(|node| Box::new((**node).clone())).collect();
        self.report.measured.objects = (meter.memory)().saturating_sub(before);
        drop((pods, nodes));
    }

    /// Adds what an event cost that began at `start`.
    pub(crate) fn count_cost(
        &mut self,
        core: fn(&mut Measured) -> &mut Costs,
        kind: &'static str,
        start: Option<Duration>,
    ) -> Duration {
        let (Some(start), Some(meter)) = (start, self.settings.meter) else { return Duration::ZERO };
        let took = (meter.time)().saturating_sub(start);
        let cost = core(&mut self.report.measured).entry(kind).or_default();
        cost.0 += 1;
        cost.1 += took;
        took
    }

    pub(crate) fn start_of_cost(&self) -> Option<Duration> {
        self.settings.meter.map(|meter| (meter.time)())
    }
}

fn total(costs: &Costs) -> Duration {
    costs.values().map(|(_, time)| *time).sum()
}
