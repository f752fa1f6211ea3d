//! What the controllers need of a pod. Whole pods are not kept: there are many of them.

use super::Key;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use km_kube::{keys, pod};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodView {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    /// Only those that map ports.
    pub port_annotations: BTreeMap<String, String>,
    pub deletion_cost: i64,
    pub owners: Vec<Value>,
    pub created: Option<Timestamp>,
    pub deleting: bool,
    pub phase: String,
    pub node: String,
    pub host_ip: String,
    pub pod_ip: String,
    pub hostname: String,
    pub subdomain: String,
    /// Since when it is ready, if it is.
    pub ready_since: Option<Timestamp>,
    pub restarts: i32,
    pub ports: Vec<DeclaredPort>,
    /// Whether the scheduler has given it to a node, though no executor may have taken it yet.
    pub is_launched: bool,
    /// The names of the persistent volume claims that it mounts.
    pub claims: Vec<String>,
}

/// A port in a container's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredPort {
    pub name: String,
    pub number: i32,
    pub protocol: String,
}

impl PodView {
    /// None for what is no pod (the API server would not send it).
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let pod: Pod = serde_json::from_value(object.clone()).ok()?;
        let ready_since = ready_since(&pod);
        let phase = pod::phase(&pod).to_owned();
        let deleting = pod::is_deleting(&pod);
        let meta = pod.metadata;
        let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
        let annotations = meta.annotations.unwrap_or_default();
        let cost = annotations.get("controller.kubernetes.io/pod-deletion-cost").and_then(|cost| cost.parse().ok());
        let claims = spec.volumes.into_iter().flatten().filter_map(|volume| volume.persistent_volume_claim);
        let ports = spec.containers.into_iter().flat_map(|container| container.ports.unwrap_or_default());
        let restarts = status.container_statuses.iter().flatten().map(|status| status.restart_count).max();
        Some(Self {
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            deletion_cost: cost.unwrap_or(0),
            is_launched: annotations.contains_key(keys::BINDING_HOST),
            claims: claims.map(|claim| claim.claim_name).collect(),
            port_annotations: annotations.into_iter().filter(|(key, _)| key.starts_with(keys::PREFIX)).collect(),
            owners: super::owners(object).to_vec(),
            created: meta.creation_timestamp.map(|time| time.0),
            deleting,
            phase,
            node: spec.node_name.unwrap_or_default(),
            host_ip: status.host_ip.unwrap_or_default(),
            pod_ip: status.pod_ip.unwrap_or_default(),
            hostname: spec.hostname.unwrap_or_default(),
            subdomain: spec.subdomain.unwrap_or_default(),
            ready_since,
            restarts: restarts.unwrap_or(0),
            ports: ports
                .map(|port| DeclaredPort {
                    name: port.name.unwrap_or_default(),
                    number: port.container_port,
                    protocol: port.protocol.unwrap_or_else(|| "TCP".to_owned()),
                })
                .collect(),
        })
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    /// Neither finished nor on its way out.
    pub(crate) fn is_active(&self) -> bool {
        !self.deleting && !self.is_terminal()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// Ready for at least `min_ready` seconds.
    pub(crate) fn is_available(&self, min_ready: i64, now: Timestamp) -> bool {
        self.ready_since.is_some_and(|since| now.as_second() - since.as_second() >= min_ready)
    }

    pub(crate) fn controller_uid(&self) -> Option<&str> {
        super::controller_of(&self.owners).and_then(|owner| owner["uid"].as_str())
    }
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    // A condition without a time counts as old.
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}
