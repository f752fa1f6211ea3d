//! What Kubernetes fills in when a manifest leaves it out, for the served kinds.
//!
//! Clients compare what they applied with what they read back, so the values are those of Kubernetes 1.37. Applying
//! them twice changes nothing, and nothing that was given is changed. What needs more than the object itself (cluster
//! IPs, node ports, priority classes, generated selectors) is the API server's.

mod batch;
mod cluster;
mod container;
mod field;
mod pod;
mod service;
mod volume;
mod workload;

use field::child;
use serde_json::Value;

/// Fills in the defaults of one object. Kinds without defaults stay as they are.
pub fn apply(group: &str, kind: &str, object: &mut Value) {
    if !object.is_object() {
        return;
    }
    match (group, kind) {
        ("", "Pod") => pod::whole_pod(object),
        ("", "PodTemplate") => pod::template(object),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("", "Service") => service::service(object),
        ("", "Endpoints") => service::endpoints(object),
        ("", "Namespace") => cluster::namespace(object),
        ("", "Node") => cluster::node(object),
        ("", "Secret") => cluster::secret(object),
        ("", "LimitRange") => cluster::limit_range(object),
        ("", "PersistentVolume") => cluster::persistent_volume(object),
        ("", "PersistentVolumeClaim") => cluster::persistent_volume_claim(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("autoscaling", "HorizontalPodAutoscaler") => workload::autoscaler(object),
        ("batch", "Job") => batch::job(object),
        ("batch", "CronJob") => batch::cron_job(object),
        ("discovery.k8s.io", "EndpointSlice") => service::endpoint_slice(object),
        ("networking.k8s.io", "NetworkPolicy") => service::network_policy(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => cluster::role_binding(object),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class(object),
        ("storage.k8s.io", "StorageClass") => cluster::storage_class(object),
        ("storage.k8s.io", "CSIDriver") => cluster::csi_driver(object),
        ("authentication.k8s.io", "TokenRequest") => {
            field::default(child(object, "spec"), "expirationSeconds", 3600);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
