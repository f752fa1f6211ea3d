//! A ReplicaSet as its Deployment sees it.

use crate::core::{integer, labels_at, text, timestamp};
use jiff::Timestamp;
use km_kube::keys::DEPLOYMENT_REVISION;
use serde_json::Value;
use std::collections::BTreeMap;

/// Annotation: how many replicas the deployment wanted when the set was scaled last.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation: how many replicas the deployment allowed at most then.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotation: revisions that the set was before, comma-separated.
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";

#[derive(Clone, Debug)]
pub(super) struct ReplicaSet {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub created: Option<Timestamp>,
    pub deleting: bool,
    pub annotations: BTreeMap<String, String>,
    pub template: Value,
    pub replicas: i64,
    pub min_ready: i64,
    /// From the status: replicas, ready, available.
    pub actual: i64,
    pub ready: i64,
    pub available: i64,
    /// Whether the status is about the spec as it is.
    pub observed: bool,
}

impl ReplicaSet {
    pub(super) fn read(object: &Value) -> Self {
        let status = |name: &str| integer(object, &format!("/status/{name}")).unwrap_or(0);
        Self {
            name: text(object, "/metadata/name").to_owned(),
            uid: text(object, "/metadata/uid").to_owned(),
            resource_version: text(object, "/metadata/resourceVersion").to_owned(),
            created: timestamp(object, "/metadata/creationTimestamp"),
            deleting: !text(object, "/metadata/deletionTimestamp").is_empty(),
            annotations: labels_at(object, "/metadata/annotations"),
            template: object["spec"]["template"].clone(),
            replicas: integer(object, "/spec/replicas").unwrap_or(1),
            min_ready: integer(object, "/spec/minReadySeconds").unwrap_or(0),
            actual: status("replicas"),
            ready: status("readyReplicas"),
            available: status("availableReplicas"),
            observed: status("observedGeneration") >= integer(object, "/metadata/generation").unwrap_or(0),
        }
    }

    pub(super) fn revision(&self) -> i64 {
        self.number(DEPLOYMENT_REVISION).unwrap_or(0)
    }

    pub(super) fn number(&self, annotation: &str) -> Option<i64> {
        self.annotations.get(annotation)?.parse().ok()
    }
}
