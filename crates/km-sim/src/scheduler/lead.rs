//! Start, election and end of the scheduler's processes.

use std::{sync::Arc, time::Duration};

use km_scheduler::core::Core;
use rand::Rng;

use super::{Scheduler, config};
use crate::{
    delivery::{Delivery, ToScheduler},
    world::World,
};
use km_fakeapi::Lease;

impl World {
    pub(crate) fn scheduler_starts(&mut self, process: usize) {
        let scheduler = &mut self.schedulers[process];
        if scheduler.running {
            return;
        }
        scheduler.running = true;
        scheduler.life += 1;
        let delay = self.latency();
        self.at_scheduler(process, delay, ToScheduler::Elect);
    }

    /// A process ends, as by SIGKILL; its supervisor starts the next one.
    pub(crate) fn scheduler_ends(&mut self, process: usize) {
        let old = std::mem::take(&mut self.schedulers[process]);
        let (life, next_watch, cut_off_until) = (old.life, old.next_watch, old.cut_off_until);
        self.schedulers[process] = Scheduler { life, next_watch, cut_off_until, ..Scheduler::default() };
        self.offers.forget(process);
        if let Some(connection) = old.connection {
            self.closed_by_peer(connection);
        }
        let pause = self.around(Duration::from_secs(5));
        self.at(pause, Delivery::SchedulerStarts(process));
    }

    pub(crate) fn reaches_api(&self, process: usize) -> bool {
        !self.api.down && self.schedulers[process].cut_off_until <= self.now
    }

    pub(super) fn elect(&mut self, process: usize) {
        let jitter = Lease::RETRY.mul_f64(self.rng.random_range(0.0..0.2));
        self.at_scheduler(process, Lease::RETRY + jitter, ToScheduler::Elect);
        let reached = self.reaches_api(process) && !self.mishap(0.02);
        let holds = reached && self.api.take_lease(self.now, process);
        let leads = self.schedulers[process].core.is_some();
        if holds {
            self.schedulers[process].renewed = self.now;
            if !leads {
                self.lead(process);
            }
        } else if leads && (reached || self.schedulers[process].renewed + Lease::RENEW_DEADLINE <= self.now) {
            self.note(|| format!("scheduler {process} leads no more"));
            self.scheduler_ends(process);
        }
    }

    fn lead(&mut self, process: usize) {
        let other =
            (0..self.schedulers.len()).find(|other| *other != process && self.schedulers[*other].core.is_some());
        if let Some(other) = other {
            self.violate(|| format!("schedulers {other} and {process} lead at the same time"));
        }
        let identity = self.api.count_start();
        self.report.leaders += 1;
        self.note(|| format!("scheduler {process} leads, start number {}", identity.generation));
        let config = config(Arc::clone(&self.framework));
        let scheduler = &mut self.schedulers[process];
        scheduler.fresh = Some((self.now, Duration::ZERO));
        scheduler.framework_id = identity.framework_id;
        scheduler.core = Some(Core::new(config, identity.generation));
        if self.settings.claims {
            self.tell_classes(process);
        }
        self.open_watches(process);
        self.subscribe(process);
    }
}
