//! Metrics, under the names of the first Kubernetes-Mesos.
//!
//! What counts upwards is a gauge here: the text format would add `_total` to a counter's name.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use km_mesos_proto::v1::{TaskState, TaskStatus, task_status};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::core::{Action, Event, Timing};

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
    kind: String,
}

/// The scheduler's metrics.
#[derive(Clone)]
pub struct Metrics {
    received: Family<Host, Gauge>,
    declined: Family<Declined, Gauge>,
    acquired: Family<Host, Gauge>,
    updates: Family<Update, Gauge>,
    reconciliations: Family<Kind, Gauge>,
    queue_wait: Histogram,
    bind_latency: Histogram,
    /// Host names of the offers that are held.
    hosts: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        // From 1 ms to about 9 minutes.
        let microseconds = || Histogram::new(exponential_buckets(1000.0, 2.0, 20));
        Self {
            received: Family::default(),
            declined: Family::default(),
            acquired: Family::default(),
            updates: Family::default(),
            reconciliations: Family::default(),
            queue_wait: microseconds(),
            bind_latency: microseconds(),
            hosts: Arc::default(),
        }
    }
}

impl Metrics {
    /// A registry that shows them.
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        registry.register("mesos_offers_received", "Offers received", self.received.clone());
        registry.register("mesos_offers_declined", "Offers declined", self.declined.clone());
        registry.register("mesos_offers_acquired", "Offers used for launches", self.acquired.clone());
        registry.register("mesos_scheduler_status_updates", "Status updates of tasks", self.updates.clone());
        registry.register(
            "mesos_scheduler_reconciliation_executed",
            "Reconciliation calls",
            self.reconciliations.clone(),
        );
        registry.register(
            "mesos_scheduler_queue_wait_time_microseconds",
            "Time from a pod's arrival to its launch",
            self.queue_wait.clone(),
        );
        registry.register(
            "mesos_scheduler_bind_latency_microseconds",
            "Time from a pod's launch to its binding",
            self.bind_latency.clone(),
        );
        registry
    }

    pub fn count_event(&self, event: &Event) {
        match event {
            Event::Offers(offers) => {
                let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
                for offer in offers {
                    self.received.get_or_create(&Host { hostname: offer.hostname.clone() }).inc();
                    hosts.insert(offer.id.value.clone(), offer.hostname.clone());
                }
            }
            Event::Rescinded(id) => {
                self.host(&id.value);
            }
            Event::Disconnected => self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clear(),
            Event::Update(status) => {
                self.updates.get_or_create(&labels(status)).inc();
            }
            _ => {}
        }
    }

    pub fn count_action(&self, action: &Action) {
        match action {
            Action::Accept { offers, .. } => {
                for offer in offers {
                    let hostname = self.host(&offer.value);
                    self.acquired.get_or_create(&Host { hostname }).inc();
                }
            }
            Action::Decline { offers, reason, .. } => {
                for offer in offers {
                    let hostname = self.host(&offer.value);
                    let reason = reason.as_str().to_owned();
                    self.declined.get_or_create(&Declined { hostname, reason }).inc();
                }
            }
            Action::Reconcile(tasks) => {
                let kind = if tasks.is_empty() { "implicit" } else { "explicit" }.to_owned();
                self.reconciliations.get_or_create(&Kind { kind }).inc();
            }
            Action::Observe(Timing::QueueWait(time)) => self.queue_wait.observe(microseconds(*time)),
            Action::Observe(Timing::BindLatency(time)) => self.bind_latency.observe(microseconds(*time)),
            _ => {}
        }
    }

    /// The host name of an offer that ends.
    fn host(&self, offer: &str) -> String {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).remove(offer).unwrap_or_default()
    }
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
