//! Values that a pod may learn of itself: `fieldRef` and `resourceFieldRef`.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use km_kube::quantity::Quantity;

use crate::resources::{Allocatable, Side, quantity};

/// What the pod's object doesn't say (yet) but the node knows.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    pub node_name: String,
    pub host_ip: Option<IpAddr>,
    pub pod_ip: Option<IpAddr>,
    pub allocatable: Allocatable,
}

/// The value of a `fieldRef.fieldPath`, for an environment variable or a file of a volume.
///
/// # Errors
/// The path names no field that pods may refer to.
pub fn field(pod: &Pod, facts: &NodeFacts, path: &str) -> Result<String, String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let ip = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default();
    if let Some(key) = subscript(path, "metadata.labels") {
        return Ok(lookup(meta.labels.as_ref(), key));
    }
    if let Some(key) = subscript(path, "metadata.annotations") {
        return Ok(lookup(meta.annotations.as_ref(), key));
    }
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => facts.node_name.clone(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => ip(facts.host_ip),
        "status.podIP" | "status.podIPs" => ip(facts.pod_ip),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// The key of `base['key']`.
fn subscript<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    path.strip_prefix(base)?.strip_prefix("['")?.strip_suffix("']")
}

fn lookup(map: Option<&BTreeMap<String, String>>, key: &str) -> String {
    map.and_then(|map| map.get(key)).cloned().unwrap_or_default()
}

/// `key="value"` per line, values quoted as in Go.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

/// The value of a `resourceFieldRef`: the quantity in units of its divisor, rounded up. A limit that isn't set is the
/// node's allocatable amount.
///
/// # Errors
/// The container, the resource or the divisor is none.
pub fn resource(
    pod: &Pod,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
    facts: &NodeFacts,
) -> Result<String, String> {
    let container = match (&selector.container_name, own) {
        (Some(name), _) => {
            let spec = pod.spec.as_ref();
            let all = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
            all.into_iter()
                .find(|container| &container.name == name)
                .ok_or_else(|| format!("container {name} not found"))?
        }
        (None, Some(own)) => own,
        (None, None) => return Err("resourceFieldRef in a volume needs a containerName".into()),
    };
    let (side, name) = match selector.resource.split_once('.') {
        Some(("limits", name)) => (Side::Limits, name),
        Some(("requests", name)) => (Side::Requests, name),
        _ => return Err(format!("unsupported container resource: {}", selector.resource)),
    };
    let divisor = match selector.divisor.as_ref().map(|divisor| divisor.0.as_str()) {
        None | Some("" | "0") => Quantity::from_value(1),
        Some(text) => Quantity::parse(text).map_err(|error| format!("divisor {text:?}: {error}"))?,
    };
    let amount = quantity(container, side, name);
    let (amount, divisor) = if name == "cpu" {
        let default = if side == Side::Limits { facts.allocatable.milli_cpu } else { 0 };
        (amount.map_or(default, |amount| amount.milli()), divisor.milli())
    } else {
        let default = if side == Side::Limits && name == "memory" { facts.allocatable.memory_bytes } else { 0 };
        (amount.map_or(default, |amount| amount.value()), divisor.value())
    };
    if divisor <= 0 {
        return Err("divisor must be greater than 0".into());
    }
    Ok((amount.max(0).saturating_add(divisor - 1) / divisor).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn pod() -> Pod {
        from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1", "b": "x\"y"}},
            "spec": {"serviceAccountName": "default", "containers": [{"name": "c", "resources": {
                "limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}}]}
        }))
        .unwrap()
    }

    fn facts() -> NodeFacts {
        let ip = |text: &str| Some(text.parse().unwrap());
        NodeFacts {
            node_name: "node".into(),
            host_ip: ip("10.0.0.1"),
            pod_ip: ip("10.1.0.2"),
            allocatable: Allocatable { milli_cpu: 4000, memory_bytes: 1 << 30 },
        }
    }

    #[test]
    fn fields() {
        for (path, value) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "n"),
            ("metadata.uid", "u"),
            ("metadata.labels['a']", "1"),
            ("metadata.labels['none']", ""),
            ("metadata.labels", "a=\"1\"\nb=\"x\\\"y\""),
            ("spec.nodeName", "node"),
            ("spec.serviceAccountName", "default"),
            ("status.hostIP", "10.0.0.1"),
            ("status.podIP", "10.1.0.2"),
        ] {
            assert_eq!(field(&pod(), &facts(), path).as_deref(), Ok(value), "{path}");
        }
        assert!(field(&pod(), &facts(), "spec.containers").is_err());
    }

    #[test]
    fn resources_are_rounded_up() {
        for (resource_name, divisor, value) in [
            ("limits.cpu", "1", "2"),
            ("limits.cpu", "1m", "1500"),
            ("requests.cpu", "0", "1"),
            ("limits.memory", "1Mi", "64"),
            ("limits.memory", "1", "67108864"),
            ("requests.memory", "1", "0"),
        ] {
            let selector: ResourceFieldSelector =
                from_value(json!({"containerName": "c", "resource": resource_name, "divisor": divisor})).unwrap();
            assert_eq!(resource(&pod(), None, &selector, &facts()).as_deref(), Ok(value), "{resource_name}/{divisor}");
        }
        let selector: ResourceFieldSelector = from_value(json!({"resource": "limits.cpu"})).unwrap();
        let unlimited = Container::default();
        assert_eq!(resource(&pod(), Some(&unlimited), &selector, &facts()).as_deref(), Ok("4"));
        assert!(resource(&pod(), None, &selector, &facts()).is_err());
    }
}
