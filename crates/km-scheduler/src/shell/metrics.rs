//! Metrics: those of the first Kubernetes-Mesos under their names, and those of Kubernetes' own scheduler that mean the
//! same here. docs/scheduler.md lists them.
//!
//! What counts upwards under an old name is a gauge here: the text format would add `_total` to a counter's name.

mod panics;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use km_mesos_proto::v1::{TaskState, TaskStatus, task_status};
use km_offers::DeclineReason;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::core::{Action, CallOutcome, Event, FrameworkAnswer, Tallies, Timing, Waiting};
pub use panics::count_panics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Host {
    hostname: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Declined {
    hostname: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Update {
    source: String,
    reason: String,
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    result: &'static str,
    profile: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cached {
    r#type: &'static str,
}

/// The only profile there is.
const PROFILE: &str = "default-scheduler";

/// The scheduler's metrics.
#[derive(Clone, Default)]
pub struct Metrics {
    received: Family<Host, Gauge>,
    declined: Family<Declined, Gauge>,
    acquired: Family<Host, Gauge>,
    released: Family<Host, Gauge>,
    updates: Family<Update, Gauge>,
    requested: Family<Kind, Gauge>,
    executed: Family<Kind, Gauge>,
    cancelled: Family<Kind, Gauge>,
    attempts: Family<Attempt, Counter>,
    pending: Family<Queue, Gauge>,
    cached: Family<Cached, Gauge>,
    reloads: Family<Outcome, Counter>,
    framework_updates: Family<Outcome, Counter>,
    times: Arc<Times>,
    memory: Arc<Mutex<Memory>>,
}

struct Times {
    queue_wait: Histogram,
    bind_latency: Histogram,
    reconciliation: Histogram,
    scheduling: Histogram,
}

impl Default for Times {
    fn default() -> Self {
        // From 1 ms to about 9 minutes.
        let microseconds = || Histogram::new(exponential_buckets(1000.0, 2.0, 20));
        Self {
            queue_wait: microseconds(),
            bind_latency: microseconds(),
            reconciliation: microseconds(),
            // As Kubernetes has them: from 10 ms to about 5.5 minutes.
            scheduling: Histogram::new(exponential_buckets(0.01, 2.0, 16)),
        }
    }
}

/// What must be remembered between an event and what follows from it.
#[derive(Default)]
struct Memory {
    /// Host names of the offers that are held.
    hosts: BTreeMap<String, String>,
    /// Of each ACCEPT under way: the host, the number of offers and that of tasks.
    accepts: BTreeMap<u64, (String, usize, usize)>,
}

impl Metrics {
    /// A registry that shows them.
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let times = &self.times;
        registry.register("mesos_offers_received", "Offers received", self.received.clone());
        registry.register("mesos_offers_declined", "Offers that ended unused", self.declined.clone());
        registry.register("mesos_offers_acquired", "Offers used for launches", self.acquired.clone());
        registry.register("mesos_offers_released", "Offers whose launch was refused", self.released.clone());
        registry.register("mesos_scheduler_status_updates", "Status updates of tasks", self.updates.clone());
        for (name, help, family) in [
            ("requested", "Reconciliations asked for", &self.requested),
            ("executed", "Reconciliations sent to Mesos", &self.executed),
            ("cancelled", "Reconciliations that another one made needless", &self.cancelled),
        ] {
            registry.register(format!("mesos_scheduler_reconciliation_{name}"), help, family.clone());
        }
        for (name, help, histogram) in [
            (
                "reconciliation_latency",
                "Time until all tasks of an explicit reconciliation were heard of",
                &times.reconciliation,
            ),
            ("queue_wait_time", "Time from a pod's arrival to its launch", &times.queue_wait),
            ("bind_latency", "Time from a pod's launch to its binding", &times.bind_latency),
        ] {
            registry.register(format!("mesos_scheduler_{name}_microseconds"), help, histogram.clone());
        }
        registry.register("mesos_runtime_panics", "Panics of this process", panics::Panics);
        registry.register("scheduler_schedule_attempts", "Attempts to schedule pods", self.attempts.clone());
        registry.register("scheduler_config_reloads", "Times the file was read again", self.reloads.clone());
        let help = "Answers of the master about changes of the framework";
        registry.register("scheduler_framework_updates", help, self.framework_updates.clone());
        registry.register("scheduler_pending_pods", "Pods that wait", self.pending.clone());
        registry.register("scheduler_scheduler_cache_size", "Known objects", self.cached.clone());
        registry.register(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's arrival to its binding",
            times.scheduling.clone(),
        );
        registry
    }

    pub fn count_event(&self, event: &Event) {
        let mut memory = self.memory();
        match event {
            Event::Offers(offers) => {
                for offer in offers {
                    self.received.get_or_create(&Host { hostname: offer.hostname.clone() }).inc();
                    memory.hosts.insert(offer.id.value.clone(), offer.hostname.clone());
                }
            }
            Event::Rescinded(id) => {
                if let Some(hostname) = memory.hosts.remove(&id.value) {
                    self.declined.get_or_create(&Declined { hostname, reason: "rescinded".to_owned() }).inc();
                }
            }
            Event::Disconnected => memory.hosts.clear(),
            Event::Update(status) => {
                self.updates.get_or_create(&labels(status)).inc();
            }
            Event::FrameworkAnswer { answer, .. } => self.framework_answered(match answer {
                FrameworkAnswer::Accepted => "accepted",
                FrameworkAnswer::Refused { .. } => "refused",
            }),
            Event::SubscriptionRefused(_) => self.framework_answered("refused"),
            Event::AcceptResult { batch, outcome } => {
                let Some((hostname, offers, tasks)) = memory.accepts.remove(batch) else { return };
                let result = match outcome {
                    CallOutcome::Accepted => "scheduled",
                    CallOutcome::Refused | CallOutcome::InDoubt => "error",
                };
                self.attempted(result, tasks);
                if *outcome == CallOutcome::Refused {
                    self.released.get_or_create(&Host { hostname }).inc_by(whole(offers));
                }
            }
            _ => {}
        }
    }

    pub fn count_action(&self, action: &Action) {
        let mut memory = self.memory();
        match action {
            Action::Accept { batch, offers, tasks, .. } => {
                let hosts = offers.iter().filter_map(|offer| memory.hosts.remove(&offer.value));
                let hostname = hosts.last().unwrap_or_default();
                self.acquired.get_or_create(&Host { hostname: hostname.clone() }).inc_by(whole(offers.len()));
                memory.accepts.insert(*batch, (hostname, offers.len(), tasks.len()));
            }
            Action::Decline { offers, reason, .. } => {
                for offer in offers {
                    let hostname = memory.hosts.remove(&offer.value).unwrap_or_default();
                    let reason = DeclineReason::as_str(*reason).to_owned();
                    self.declined.get_or_create(&Declined { hostname, reason }).inc();
                }
            }
            Action::PatchPodStatus { .. } => self.attempted("unschedulable", 1),
            Action::Observe(Timing::QueueWait(time)) => self.times.queue_wait.observe(microseconds(*time)),
            Action::Observe(Timing::BindLatency(time)) => self.times.bind_latency.observe(microseconds(*time)),
            Action::Observe(Timing::Reconciliation(time)) => self.times.reconciliation.observe(microseconds(*time)),
            Action::Observe(Timing::Scheduling(time)) => self.times.scheduling.observe(time.as_secs_f64()),
            _ => {}
        }
    }

    /// What is counted by looking at the core.
    pub fn show(&self, tallies: &Tallies, waiting: &Waiting) {
        for (kind, tally) in [("explicit", tallies.explicit), ("implicit", tallies.implicit)] {
            let kind = Kind { kind };
            self.requested.get_or_create(&kind).set(signed(tally.requested));
            self.executed.get_or_create(&kind).set(signed(tally.executed));
            self.cancelled.get_or_create(&kind).set(signed(tally.cancelled));
        }
        let queues = [
            ("active", waiting.active),
            ("backoff", waiting.backoff),
            ("unschedulable", waiting.unschedulable),
            ("gated", waiting.gated),
        ];
        for (queue, pods) in queues {
            self.pending.get_or_create(&Queue { queue }).set(whole(pods));
        }
        let cached = [("nodes", waiting.nodes), ("pods", waiting.pods), ("assumed_pods", waiting.assumed)];
        for (r#type, count) in cached {
            self.cached.get_or_create(&Cached { r#type }).set(whole(count));
        }
    }

    /// The configuration file was read again.
    pub fn reloaded(&self, result: &'static str) {
        self.reloads.get_or_create(&Outcome { result }).inc();
    }

    fn framework_answered(&self, result: &'static str) {
        self.framework_updates.get_or_create(&Outcome { result }).inc();
    }

    fn attempted(&self, result: &'static str, pods: usize) {
        self.attempts.get_or_create(&Attempt { result, profile: PROFILE }).inc_by(pods as u64);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // The maps are whole at any time.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn microseconds(time: Duration) -> f64 {
    time.as_micros() as f64
}

fn labels(status: &TaskStatus) -> Update {
    let none = || "none".to_owned();
    let source = status.source.and_then(|source| task_status::Source::try_from(source).ok());
    let reason = status.reason.and_then(|reason| task_status::Reason::try_from(reason).ok());
    let state = TaskState::try_from(status.state).ok();
    Update {
        source: source.map_or_else(none, |source| source.as_str_name().to_owned()),
        reason: reason.map_or_else(none, |reason| reason.as_str_name().to_owned()),
        state: state.map_or_else(none, |state| state.as_str_name().to_owned()),
    }
}

#[cfg(test)]
mod tests;
