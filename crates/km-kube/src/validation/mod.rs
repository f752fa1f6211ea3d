//! Validation of the served kinds: what a new object must be, and what an update may not change.
//!
//! Objects come here after defaults were applied and the schema found no wrong types. Field paths, reasons and texts are
//! those of Kubernetes 1.37, since clients and tests read them. Kinds without rules of their own are held to the fields
//! that their schema requires.

mod at;
mod batch;
mod config;
mod container;
mod error;
mod field_path;
mod handler;
mod meta;
mod other;
mod pod;
mod pod_resize;
mod pod_update;
mod resources;
mod service;
mod storage;
mod volume;
mod workload;

pub use error::{FieldError, Reason};

use at::{At, Errors};
use serde_json::Value;

/// What is wrong with a new object; empty when it may be stored.
#[must_use]
pub fn create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let root = At::root(object);
    meta::metadata(&root.field("metadata"), meta::name_rule(group, kind), &mut errors);
    content(group, kind, &root, &mut errors);
    if (group, kind) == ("", "Pod") && root.down("spec.ephemeralContainers").is_set() {
        errors.push(root.down("spec.ephemeralContainers").forbidden("cannot be set on create"));
    }
    errors
}

/// What is wrong with a change of the main resource; empty when it may be stored. Subresources (`status`, `binding`,
/// `ephemeralcontainers`, `resize`) change what this refuses and are not checked here.
#[must_use]
pub fn update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (root, before) = (At::root(new), At::root(old));
    meta::metadata(&root.field("metadata"), meta::name_rule(group, kind), &mut errors);
    meta::metadata_update(&root.field("metadata"), &before.field("metadata"), &mut errors);
    content(group, kind, &root, &mut errors);
    match (group, kind) {
        ("", "Pod") => pod_update::pod(&root, &before, &mut errors),
        ("", "Service") => service::service_update(&root, &before, &mut errors),
        ("", "ConfigMap" | "Secret") => config::update(&root, &before, &mut errors),
        ("", "PersistentVolumeClaim") => storage::claim_update(&root, &before, &mut errors),
        ("", "PersistentVolume") => storage::volume_update(&root, &before, &mut errors),
        ("storage.k8s.io", "StorageClass") => storage::class_update(&root, &before, &mut errors),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            root.down("spec.selector").immutable(&before.down("spec.selector"), &mut errors);
        }
        ("apps", "StatefulSet") => workload::stateful_set_update(&root, &before, &mut errors),
        ("apps", "ControllerRevision") => root.field("data").immutable(&before.field("data"), &mut errors),
        ("batch", "Job") => batch::job_update(&root, &before, &mut errors),
        ("discovery.k8s.io", "EndpointSlice") => {
            root.field("addressType").immutable(&before.field("addressType"), &mut errors);
        }
        ("scheduling.k8s.io", "PriorityClass") => other::priority_class_update(&root, &before, &mut errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if root.field("roleRef").value != before.field("roleRef").value =>
        {
            errors.push(root.field("roleRef").invalid("cannot change roleRef"));
        }
        _ => {}
    }
    errors
}

/// The pod that a write to `pods/resize` makes of `old`: whatever else `new` brings is left out.
#[must_use]
pub fn resized(old: &Value, new: &Value) -> Value {
    pod_resize::only_resources(old, new)
}

/// What is wrong with a resize of a pod; empty when it may be stored.
#[must_use]
pub fn resize(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (root, before) = (At::root(new), At::root(old));
    content("", "Pod", &root, &mut errors);
    pod_resize::pod(&root, &before, &mut errors);
    errors
}

fn content(group: &str, kind: &str, root: &At<'_>, errors: &mut Errors) {
    match (group, kind) {
        ("", "Pod") => pod::spec(&root.field("spec"), errors),
        ("", "PodTemplate") => workload::template(&root.field("template"), &[], errors),
        ("", "ReplicationController") => workload::replication_controller(root, errors),
        ("", "Service") => service::service(root, errors),
        ("", "Endpoints") => service::endpoints(root, errors),
        ("", "ConfigMap") => config::config_map(root, errors),
        ("", "Secret") => config::secret(root, errors),
        ("", "PersistentVolumeClaim") => storage::claim(root, errors),
        ("", "PersistentVolume") => storage::volume(root, errors),
        ("apps", "Deployment") => workload::deployment(root, errors),
        ("apps", "ReplicaSet") => workload::replica_set(root, errors),
        ("apps", "StatefulSet") => workload::stateful_set(root, errors),
        ("apps", "DaemonSet") => workload::daemon_set(root, errors),
        ("batch", "Job") => batch::job(root, errors),
        ("batch", "CronJob") => batch::cron_job(root, errors),
        ("coordination.k8s.io", "Lease") => other::lease(root, errors),
        ("discovery.k8s.io", "EndpointSlice") => service::endpoint_slice(root, errors),
        ("policy", "PodDisruptionBudget") => other::disruption_budget(root, errors),
        ("scheduling.k8s.io", "PriorityClass") => other::priority_class(root, errors),
        ("storage.k8s.io", "StorageClass") => storage::class(root, errors),
        ("storage.k8s.io", "CSINode") => storage::csi_node(root, errors),
        _ => other::required_by_schema(group, kind, root, errors),
    }
}

#[cfg(test)]
mod tests;
