//! What the watches have shown so far.

use super::value::key_of;
use super::{Key, PodView, Resource};
use serde_json::Value;
use std::collections::BTreeMap;

/// Caches of the resources that controllers read. They may lag behind the API server.
#[derive(Debug, Default)]
pub(crate) struct World {
    pods: BTreeMap<Key, PodView>,
    others: BTreeMap<String, BTreeMap<Key, Value>>,
}

impl World {
    pub(super) fn put_pod(&mut self, pod: PodView) -> Option<PodView> {
        self.pods.insert(pod.key(), pod)
    }

    pub(super) fn remove_pod(&mut self, key: &Key) -> Option<PodView> {
        self.pods.remove(key)
    }

    pub(crate) fn put(&mut self, resource: &Resource, object: Value) -> Option<Value> {
        self.others.entry(resource.plural.clone()).or_default().insert(key_of(&object), object)
    }

    pub(crate) fn remove(&mut self, resource: &Resource, key: &Key) -> Option<Value> {
        self.others.get_mut(&resource.plural)?.remove(key)
    }

    pub(crate) fn get(&self, resource: &Resource, key: &Key) -> Option<&Value> {
        self.others.get(&resource.plural)?.get(key)
    }

    /// All objects of a resource in one namespace.
    pub(crate) fn within<'a>(
        &'a self,
        resource: &Resource,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Value> + use<'a> {
        let namespace = namespace.to_owned();
        let start = Key::new(&namespace, "");
        let table = self.others.get(&resource.plural);
        let from = table.into_iter().flat_map(move |table| table.range(start.clone()..));
        from.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// All objects of a resource, by namespace and name.
    pub(crate) fn all<'a>(&'a self, resource: &Resource) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.others.get(&resource.plural).into_iter().flat_map(BTreeMap::values)
    }

    /// All pods of one namespace.
    pub(crate) fn pods_within<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a PodView> + use<'a> {
        let namespace = namespace.to_owned();
        let from = self.pods.range(Key::new(&namespace, "")..);
        from.take_while(move |(key, _)| key.namespace == namespace).map(|(_, pod)| pod)
    }
}
