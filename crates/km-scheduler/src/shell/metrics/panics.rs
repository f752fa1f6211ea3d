//! How often this process panicked.

use std::{
    panic,
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::MetricType,
};

static SEEN: AtomicU64 = AtomicU64::new(0);
static INSTALLED: Once = Once::new();

/// From now on every panic counts. What else happens at one stays as it is.
pub fn count_panics() {
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            SEEN.fetch_add(1, Ordering::Relaxed);
            before(info);
        }));
    });
}

/// The number, as a metric.
#[derive(Debug)]
pub struct Panics;

impl EncodeMetric for Panics {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&i64::try_from(SEEN.load(Ordering::Relaxed)).unwrap_or(i64::MAX))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_counts() {
        count_panics();
        let before = SEEN.load(Ordering::Relaxed);
        assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
        assert!(SEEN.load(Ordering::Relaxed) > before);
    }
}
