//! A ReplicaSet or ReplicationController, read from its object.

use crate::core::{Resource, controller_reference, integer, labels_at, text};
use km_kube::selector::LabelSelector;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub replicas: usize,
    /// Seconds that a pod must have been ready to count as available.
    pub min_ready: i64,
    pub selector: LabelSelector,
    pub template: Value,
    pub deleting: bool,
    pub status: Value,
}

impl Set {
    /// None when it selects nothing or everything: the API server refuses such sets.
    pub(crate) fn read(resource: &Resource, object: &Value) -> Option<Self> {
        let selector = if resource.kind == "ReplicaSet" {
            LabelSelector::from_object(&object["spec"]["selector"]).ok()?
        } else {
            LabelSelector::from_map(&labels_at(object, "/spec/selector"))
        };
        if selector.is_everything() {
            return None;
        }
        Some(Self {
            resource: resource.clone(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            generation: integer(object, "/metadata/generation").unwrap_or(0),
            replicas: usize::try_from(integer(object, "/spec/replicas").unwrap_or(1)).unwrap_or(0),
            min_ready: integer(object, "/spec/minReadySeconds").unwrap_or(0),
            selector,
            template: object["spec"]["template"].clone(),
            deleting: !text(object, "/metadata/deletionTimestamp").is_empty(),
            status: object["status"].clone(),
        })
    }

    pub(super) fn reference(&self) -> Value {
        controller_reference(&self.resource, &self.name, &self.uid)
    }
}
