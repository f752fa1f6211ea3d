//! Defaults of services, endpoints and network policies.

use super::field::{child, default, default_text, items, set, text};
use serde_json::{Value, json};

pub(super) fn service(object: &mut Value) {
    let spec = child(object, "spec");
    default_text(spec, "sessionAffinity", "None");
    default_text(spec, "type", "ClusterIP");
    if text(spec, "sessionAffinity") == "ClientIP" {
        default(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
    }
    for port in items(spec, "ports") {
        default_text(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").is_some_and(|target| target == &json!(0) || target == "") {
            set(port, "targetPort", Value::Null);
        }
        default(port, "targetPort", number);
    }
    let kind = text(spec, "type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        default_text(spec, "internalTrafficPolicy", "Cluster");
        default(spec, "ipFamilies", json!(["IPv4"]));
        default_text(spec, "ipFamilyPolicy", "SingleStack");
        cluster_ips(spec);
    }
    child(child(object, "status"), "loadBalancer");
}

/// The single field and the list are two names of one thing.
fn cluster_ips(spec: &mut Value) {
    let single = text(spec, "clusterIP").to_owned();
    if !single.is_empty() {
        default(spec, "clusterIPs", json!([single]));
    } else if let Some(first) = spec.pointer("/clusterIPs/0").cloned() {
        set(spec, "clusterIP", first);
    }
}

pub(super) fn endpoints(object: &mut Value) {
    for port in items(object, "subsets").flat_map(|subset| items(subset, "ports")) {
        default_text(port, "protocol", "TCP");
    }
}

pub(super) fn endpoint_slice(object: &mut Value) {
    for port in items(object, "ports") {
        default(port, "name", "");
        default_text(port, "protocol", "TCP");
    }
}

pub(super) fn network_policy(object: &mut Value) {
    let spec = child(object, "spec");
    for list in ["ingress", "egress"] {
        for port in items(spec, list).flat_map(|rule| items(rule, "ports")) {
            default_text(port, "protocol", "TCP");
        }
    }
    let egress = existing_list(spec, "egress");
    default(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
}

fn existing_list(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}
