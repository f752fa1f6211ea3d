//! One-shot listeners: somebody who waits for an offer that pleases.

use std::collections::BTreeMap;

use km_mesos_proto::v1;

/// Tells whether an offer is one that the listener waits for.
pub type Filter = Box<dyn Fn(&v1::Offer) -> bool + Send + Sync>;

/// The waiting listeners by key. A second registration under the same key replaces the first.
#[derive(Default)]
pub(crate) struct Listeners {
    waiting: BTreeMap<String, Filter>,
}

impl Listeners {
    pub fn register(&mut self, key: String, filter: Filter) {
        self.waiting.insert(key, filter);
    }

    pub fn forget(&mut self, key: &str) {
        self.waiting.remove(key);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes out and returns the keys of those that any of `offers` pleases.
    pub fn woken_by(&mut self, offers: &[&v1::Offer]) -> Vec<String> {
        let woken: Vec<String> = self
            .waiting
            .iter()
            .filter(|(_, filter)| offers.iter().any(|offer| filter(offer)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &woken {
            self.waiting.remove(key);
        }
        woken
    }
}
