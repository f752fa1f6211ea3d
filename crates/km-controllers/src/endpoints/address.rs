//! Where one pod serves one service.

use crate::core::{DeclaredPort, PodView, text};
use km_kube::keys::{port_annotation, port_name_annotation};
use serde_json::{Value, json};

/// A port as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServingPort {
    /// Name of the service's port; may be empty.
    pub name: String,
    pub protocol: String,
    pub number: i32,
    pub app_protocol: Option<String>,
    /// The container's port behind a host port.
    pub container_port: Option<i32>,
}

/// One pod behind a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Endpoint {
    pub ip: String,
    pub ports: Vec<ServingPort>,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub node: String,
    /// Name in DNS, if the pod asks for one under this service.
    pub hostname: Option<String>,
    pub target: Value,
}

/// None for a pod that cannot serve: finished, without an address, or without any of the ports.
pub(super) fn endpoint(service: &Value, pod: &PodView, host_ports: bool) -> Option<Endpoint> {
    let ip = if host_ports { &pod.host_ip } else { &pod.pod_ip };
    if ip.is_empty() || pod.is_terminal() {
        return None;
    }
    let service_ports = service.pointer("/spec/ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ports: Vec<ServingPort> = service_ports.iter().filter_map(|port| serving(port, pod, host_ports)).collect();
    let headless_without_ports = service_ports.is_empty() && text(service, "/spec/clusterIP") == "None";
    if ports.is_empty() && !headless_without_ports {
        return None;
    }
    let publish_all = service.pointer("/spec/publishNotReadyAddresses") == Some(&json!(true));
    let named = !pod.hostname.is_empty() && pod.subdomain == text(service, "/metadata/name");
    Some(Endpoint {
        ip: ip.clone(),
        ports,
        ready: publish_all || (pod.is_ready() && !pod.deleting),
        serving: publish_all || pod.is_ready(),
        terminating: pod.deleting,
        node: pod.node.clone(),
        hostname: named.then(|| pod.hostname.clone()),
        target: json!({"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}),
    })
}

fn serving(port: &Value, pod: &PodView, host_ports: bool) -> Option<ServingPort> {
    let protocol = Some(text(port, "/protocol")).filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
    let target = port.get("targetPort").filter(|target| !target.is_null()).unwrap_or(&port["port"]);
    let declared = pod.ports.iter().find(|declared| declared.protocol == protocol && is_target(declared, target));
    let (number, container_port) = if host_ports {
        let declared = declared?;
        (host_port(pod, declared, target)?, Some(declared.number))
    } else {
        // A number need not be declared by the pod; a name must be.
        let undeclared = target.as_i64().and_then(|number| i32::try_from(number).ok());
        (declared.map(|declared| declared.number).or(undeclared)?, None)
    };
    Some(ServingPort {
        name: text(port, "/name").to_owned(),
        protocol: protocol.to_owned(),
        number,
        app_protocol: port["appProtocol"].as_str().map(str::to_owned),
        container_port,
    })
}

fn is_target(declared: &DeclaredPort, target: &Value) -> bool {
    match target {
        Value::String(name) => &declared.name == name,
        number => number.as_i64() == Some(i64::from(declared.number)),
    }
}

/// By name for a named target, by number for a number.
fn host_port(pod: &PodView, declared: &DeclaredPort, target: &Value) -> Option<i32> {
    let annotation = match target {
        Value::String(name) => port_name_annotation(&declared.protocol, name),
        _ => port_annotation(&declared.protocol, declared.number),
    };
    pod.port_annotations.get(&annotation)?.parse().ok().filter(|port| (1..=65535).contains(port))
}
