//! EndpointSlices: the ports of a slice hold for all its endpoints, so pods with other (host) ports get another slice.
//!
//! The name of a slice follows from its service, address type, ports and number: a run on an old cache makes no second.

use super::address::{Endpoint, ServingPort};
use super::{Action, Key, SLICE_MANAGER, delete};
use crate::core::{Resource, controller_reference, labels_at, same_but_metadata, text};
use km_kube::keys::{ENDPOINTSLICE_MANAGED_BY, HEADLESS_LABEL, SERVICE_NAME_LABEL};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Endpoints per slice.
const SLICE_SIZE: usize = 100;

/// Where the endpoints of slices come from.
pub(super) struct Origin<'a> {
    /// The service, or the Endpoints object that somebody wrote for it: the slices carry its labels and go with it.
    pub object: &'a Value,
    pub resource: Resource,
    /// Value of the label of the slices.
    pub manager: &'static str,
    pub headless: bool,
}

pub(super) fn is_ours(slice: &Value, service: &str, manager: &str) -> bool {
    let labels = labels_at(slice, "/metadata/labels");
    labels.get(SERVICE_NAME_LABEL).is_some_and(|name| name == service)
        && labels.get(ENDPOINTSLICE_MANAGED_BY).is_some_and(|known| known == manager)
}

pub(super) fn changes(origin: &Origin<'_>, key: &Key, found: &[Endpoint], have: &[&Value]) -> Vec<Action> {
    let resource = Resource::endpoint_slices();
    let wanted = wanted(origin, key, found);
    let mut actions = Vec::new();
    for slice in have {
        if !wanted.contains_key(text(slice, "/metadata/name")) {
            actions.push(delete(resource.clone(), slice));
        }
    }
    for (name, slice) in wanted {
        match have.iter().find(|have| text(have, "/metadata/name") == name) {
            None => {
                let namespace = key.namespace.clone();
                actions.push(Action::Create { resource: resource.clone(), namespace, object: slice });
            }
            Some(have)
                if same_but_metadata(have, &slice) && have["metadata"]["labels"] == slice["metadata"]["labels"] => {}
            Some(have) => {
                let mut object = slice;
                object["metadata"]["resourceVersion"] = have["metadata"]["resourceVersion"].clone();
                object["metadata"]["uid"] = have["metadata"]["uid"].clone();
                actions.push(Action::Replace {
                    resource: resource.clone(),
                    namespace: key.namespace.clone(),
                    name,
                    subresource: None,
                    object,
                });
            }
        }
    }
    actions
}

fn wanted(origin: &Origin<'_>, key: &Key, found: &[Endpoint]) -> BTreeMap<String, Value> {
    let mut groups: BTreeMap<(&str, Vec<ServingPort>), Vec<&Endpoint>> = BTreeMap::new();
    for endpoint in found {
        let family = if endpoint.ip.contains(':') { "IPv6" } else { "IPv4" };
        let mut ports = endpoint.ports.clone();
        ports.iter_mut().for_each(|port| port.container_port = None);
        ports.sort();
        groups.entry((family, ports)).or_default().push(endpoint);
    }
    let mut slices = BTreeMap::new();
    for ((family, ports), mut endpoints) in groups {
        endpoints.sort_by_key(|endpoint| (endpoint.target["name"].to_string(), endpoint.target["uid"].to_string()));
        for (index, chunk) in endpoints.chunks(SLICE_SIZE).enumerate() {
            let name = slice_name(key, origin.manager, family, &ports, index);
            slices.insert(name.clone(), slice(origin, key, &name, family, &ports, chunk));
        }
    }
    slices
}

fn slice_name(key: &Key, manager: &str, family: &str, ports: &[ServingPort], index: usize) -> String {
    let ports: Vec<String> =
        ports.iter().map(|port| format!("{}/{}/{}", port.name, port.protocol, port.number)).collect();
    let manager = if manager == SLICE_MANAGER { "" } else { manager };
    let text = format!("{manager}{family} {} {index}", ports.join(","));
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{hash:016x}", key.name)
}

fn slice(
    origin: &Origin<'_>,
    key: &Key,
    name: &str,
    family: &str,
    ports: &[ServingPort],
    endpoints: &[&Endpoint],
) -> Value {
    let mut labels = labels_at(origin.object, "/metadata/labels");
    labels.insert(SERVICE_NAME_LABEL.to_owned(), key.name.clone());
    labels.insert(ENDPOINTSLICE_MANAGED_BY.to_owned(), origin.manager.to_owned());
    if origin.headless {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    let owner = controller_reference(&origin.resource, &key.name, text(origin.object, "/metadata/uid"));
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": key.namespace, "labels": labels, "ownerReferences": [owner]},
        "addressType": family,
        "endpoints": endpoints.iter().map(|endpoint| item(endpoint)).collect::<Vec<_>>(),
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
    })
}

fn item(endpoint: &Endpoint) -> Value {
    let mut item = json!({
        "addresses": [endpoint.ip],
        "conditions": {"ready": endpoint.ready, "serving": endpoint.serving, "terminating": endpoint.terminating},
    });
    if !endpoint.target.is_null() {
        item["targetRef"] = endpoint.target.clone();
    }
    if !endpoint.node.is_empty() {
        item["nodeName"] = json!(endpoint.node);
    }
    if let Some(hostname) = &endpoint.hostname {
        item["hostname"] = json!(hostname);
    }
    item
}

fn port(port: &ServingPort) -> Value {
    let mut object = json!({"name": port.name, "port": port.number, "protocol": port.protocol});
    if let Some(app_protocol) = &port.app_protocol {
        object["appProtocol"] = json!(app_protocol);
    }
    object
}
