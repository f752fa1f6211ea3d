//! The Endpoints object: addresses with the same ports share a subset.

use super::address::{Endpoint, ServingPort};
use super::{Action, Key, MANAGED_BY};
use crate::core::{Resource, labels_at};
use km_kube::keys::{HEADLESS_LABEL, container_port_annotation};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) fn is_ours(object: &Value) -> bool {
    labels_at(object, "/metadata/labels").get(MANAGED_BY.0).is_some_and(|manager| manager == MANAGED_BY.1)
}

/// The write that makes the object true. Nothing is written when subsets and labels are right already.
pub(super) fn change(service: &Value, key: &Key, found: &[Endpoint], have: Option<&Value>) -> Option<Action> {
    let subsets = subsets(found);
    let mut labels = labels_at(service, "/metadata/labels");
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    if service.pointer("/spec/clusterIP") == Some(&json!("None")) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    let resource = Resource::endpoints();
    let Some(have) = have else {
        let object = json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels, "annotations": container_ports(found)},
            "subsets": subsets,
        });
        return Some(Action::Create { resource, namespace: key.namespace.clone(), object });
    };
    let same_subsets = have.get("subsets").and_then(Value::as_array).cloned().unwrap_or_default() == subsets;
    if same_subsets && labels_at(have, "/metadata/labels") == labels {
        return None;
    }
    let mut object = have.clone();
    object["subsets"] = json!(subsets);
    object["metadata"]["labels"] = json!(labels);
    // Annotations are only ever added.
    for (name, value) in container_ports(found) {
        object["metadata"]["annotations"][name] = value;
    }
    Some(Action::Replace {
        resource,
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        subresource: None,
        object,
    })
}

fn container_ports(found: &[Endpoint]) -> Map<String, Value> {
    let ports = found.iter().flat_map(|endpoint| endpoint.ports.iter().map(move |port| (endpoint, port)));
    let mapped = ports.filter_map(|(endpoint, port)| {
        let annotation = container_port_annotation(&port.protocol, &endpoint.ip, port.number);
        Some((annotation, json!(port.container_port?.to_string())))
    });
    mapped.collect()
}

/// Pods on their way out are left out; those that are not ready are named apart.
fn subsets(found: &[Endpoint]) -> Vec<Value> {
    let mut groups: BTreeMap<Vec<ServingPort>, (Vec<&Endpoint>, Vec<&Endpoint>)> = BTreeMap::new();
    for endpoint in found.iter().filter(|endpoint| !endpoint.terminating || endpoint.ready) {
        let mut ports = endpoint.ports.clone();
        ports.iter_mut().for_each(|port| port.container_port = None);
        ports.sort();
        let (ready, waiting) = groups.entry(ports).or_default();
        if endpoint.ready { ready.push(endpoint) } else { waiting.push(endpoint) }
    }
    let subset = |(ports, (ready, waiting)): (Vec<ServingPort>, (Vec<&Endpoint>, Vec<&Endpoint>))| {
        let mut subset = Map::new();
        for (name, mut endpoints) in [("addresses", ready), ("notReadyAddresses", waiting)] {
            if !endpoints.is_empty() {
                endpoints.sort_by_key(|endpoint| (endpoint.ip.clone(), endpoint.target["uid"].to_string()));
                subset.insert(name.to_owned(), endpoints.into_iter().map(address).collect());
            }
        }
        if !ports.is_empty() {
            subset.insert("ports".to_owned(), ports.iter().map(port).collect());
        }
        Value::Object(subset)
    };
    groups.into_iter().map(subset).collect()
}

fn address(endpoint: &Endpoint) -> Value {
    let mut address = json!({"ip": endpoint.ip, "targetRef": endpoint.target});
    if !endpoint.node.is_empty() {
        address["nodeName"] = json!(endpoint.node);
    }
    if let Some(hostname) = &endpoint.hostname {
        address["hostname"] = json!(hostname);
    }
    address
}

fn port(port: &ServingPort) -> Value {
    let mut object = json!({"port": port.number, "protocol": port.protocol});
    if !port.name.is_empty() {
        object["name"] = json!(port.name);
    }
    if let Some(app_protocol) = &port.app_protocol {
        object["appProtocol"] = json!(app_protocol);
    }
    object
}
