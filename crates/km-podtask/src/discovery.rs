//! Discovery info: what service discovery of the Mesos side may show of a pod.

use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;
use km_mesos_proto::v1::{self, discovery_info::Visibility};

use crate::{PodKey, PortEntry};

/// The discovery info of a pod: labels `name`, `environment`, `location`, `version`, overridden by annotations
/// `k8s.mesosphere.io/discovery-…`; the name gets `.<namespace>.pod` added.
pub fn discovery_info(pod: &Pod, ports: &[PortEntry]) -> v1::DiscoveryInfo {
    let namespace = PodKey::of(&pod.metadata).namespace;
    let name = field(pod, "name", keys::DISCOVERY_NAME).map(|name| format!("{name}.{namespace}.pod"));
    let visibility = visibility(pod) as i32;
    let ports = ports.iter().map(|entry| v1::Port {
        number: u32::from(entry.host_port),
        name: entry.name.clone(),
        protocol: Some(entry.protocol.to_lowercase()),
        ..v1::Port::default()
    });
    let ports: Vec<v1::Port> = ports.collect();
    v1::DiscoveryInfo {
        visibility,
        name,
        environment: field(pod, "environment", keys::DISCOVERY_ENVIRONMENT),
        location: field(pod, "location", keys::DISCOVERY_LOCATION),
        version: field(pod, "version", keys::DISCOVERY_VERSION),
        ports: (!ports.is_empty()).then_some(v1::Ports { ports }),
        ..v1::DiscoveryInfo::default()
    }
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn field(pod: &Pod, label: &str, key: &str) -> Option<String> {
    let labelled = pod.metadata.labels.as_ref().and_then(|labels| labels.get(label)).filter(|value| !value.is_empty());
    annotation(pod, key).map(str::to_owned).or_else(|| labelled.cloned())
}

fn visibility(pod: &Pod) -> Visibility {
    match annotation(pod, keys::DISCOVERY_VISIBILITY) {
        Some("framework") => Visibility::Framework,
        Some("external") => Visibility::External,
        Some("cluster") | None => Visibility::Cluster,
        Some(other) => {
            let key = keys::DISCOVERY_VISIBILITY;
            tracing::warn!(value = other, "annotation {key} should be framework, cluster or external");
            Visibility::Cluster
        }
    }
}
