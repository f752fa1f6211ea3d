//! Numbers about this executor, under the kubelet's names where the meaning is the same.

use std::fmt::Error;

use km_observe::Admin;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
    registry::Registry,
};

use crate::table::PodTable;

/// Counts when it is asked.
#[derive(Clone)]
struct Pods(PodTable);

impl std::fmt::Debug for Pods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pods")
    }
}

impl Collector for Pods {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let count = i64::try_from(self.0.living()).unwrap_or(i64::MAX);
        let gauge = ConstGauge::new(count);
        let help = "Pods that are not over yet";
        let metric = encoder.encode_descriptor("kubelet_running_pods", help, None, gauge.metric_type())?;
        gauge.encode(metric)
    }
}

/// Health and metrics routes.
pub fn admin(table: PodTable) -> Admin {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Pods(table)));
    Admin::new(registry)
}
