//! Counters of the server, under upstream's names.

use std::time::Duration;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    resource: String,
    code: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: String,
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    resource: &'static str,
}

/// All metrics of one server.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
    watches: Family<WatchLabels, Gauge>,
}

/// Counts a watch as long as it lives.
pub struct WatchGuard(Gauge);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub fn new() -> Self {
        let requests = Family::<RequestLabels, Counter>::default();
        let durations = Family::<DurationLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.001, 2.0, 14))
        });
        let watches = Family::<WatchLabels, Gauge>::default();
        let mut registry = Registry::default();
        registry.register("apiserver_request", "Requests answered, by verb, resource and code", requests.clone());
        let help = "Time from request to response headers, in seconds";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        registry.register("apiserver_longrunning_requests", "Watches that are open, by resource", watches.clone());
        Self { registry, requests, durations, watches }
    }

    /// Counts an answered request.
    pub fn observe(&self, verb: &str, resource: &str, code: u16, took: Duration) {
        let (verb, resource) = (verb.to_owned(), resource.to_owned());
        let labels = RequestLabels { verb: verb.clone(), resource: resource.clone(), code: u32::from(code) };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&DurationLabels { verb, resource }).observe(took.as_secs_f64());
    }

    /// Counts a watch until the guard is dropped.
    pub fn watch_started(&self, resource: &'static str) -> WatchGuard {
        let gauge = self.watches.get_or_create(&WatchLabels { resource }).clone();
        gauge.inc();
        WatchGuard(gauge)
    }

    /// The text of a scrape.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
