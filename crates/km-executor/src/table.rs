//! The pods of this node, living and ended, as the main loop and the HTTP API see them.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodHandle;

/// By pod UID. Clones share the content.
#[derive(Clone, Default)]
pub struct PodTable {
    pods: Arc<RwLock<BTreeMap<String, PodHandle>>>,
}

impl PodTable {
    pub fn insert(&self, handle: PodHandle) {
        self.write(|pods| pods.insert(handle.key.uid.clone(), handle));
    }

    pub fn remove(&self, uid: &str) -> Option<PodHandle> {
        self.write(|pods| pods.remove(uid))
    }

    pub fn get(&self, uid: &str) -> Option<PodHandle> {
        self.read(|pods| pods.get(uid).cloned())
    }

    /// The pod of that name; of several incarnations the one that still lives.
    pub fn find(&self, namespace: &str, name: &str) -> Option<PodHandle> {
        self.read(|pods| {
            let named = pods.values().filter(|pod| pod.key.namespace == namespace && pod.key.name == name);
            named.max_by_key(|pod| !pod.input.is_closed()).cloned()
        })
    }

    /// All pods with their newest statuses.
    pub fn pods(&self) -> Vec<Pod> {
        self.read(|pods| pods.values().map(|pod| pod.view.borrow().clone()).collect())
    }

    /// How many are not over yet.
    pub fn living(&self) -> usize {
        self.read(|pods| pods.values().filter(|pod| !pod.input.is_closed()).count())
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<String, PodHandle>) -> T) -> T {
        look(&self.pods.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut BTreeMap<String, PodHandle>) -> T) -> T {
        change(&mut self.pods.write().unwrap_or_else(PoisonError::into_inner))
    }
}
