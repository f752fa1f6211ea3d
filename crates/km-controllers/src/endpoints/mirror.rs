//! Endpoints objects that somebody wrote, for a service without a selector: what they say goes into slices, since those
//! are all that proxies read.

use super::address::{Endpoint, ServingPort};
use crate::core::{labels_at, text};
use serde_json::Value;

/// Label that keeps an Endpoints object out of slices: whoever wrote it writes slices as well.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of objects that were misused as locks.
const LOCK: &str = "/metadata/annotations/control-plane.alpha.kubernetes.io~1leader";

pub(super) fn is_wanted(object: &Value) -> bool {
    labels_at(object, "/metadata/labels").get(SKIP).is_none_or(|skip| skip != "true")
        && object.pointer(LOCK).is_none()
        && !super::endpoints_object::is_ours(object)
}

/// Every address of the object.
pub(super) fn endpoints(object: &Value) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for subset in list(object, "subsets") {
        let ports: Vec<ServingPort> = list(subset, "ports").iter().filter_map(port).collect();
        for (addresses, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            found.extend(list(subset, addresses).iter().map(|address| endpoint(address, ports.clone(), ready)));
        }
    }
    found
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

fn port(port: &Value) -> Option<ServingPort> {
    Some(ServingPort {
        name: text(port, "/name").to_owned(),
        protocol: Some(text(port, "/protocol")).filter(|protocol| !protocol.is_empty()).unwrap_or("TCP").to_owned(),
        number: i32::try_from(port["port"].as_i64()?).ok()?,
        app_protocol: port["appProtocol"].as_str().map(str::to_owned),
        container_port: None,
    })
}

fn endpoint(address: &Value, ports: Vec<ServingPort>, ready: bool) -> Endpoint {
    Endpoint {
        ip: text(address, "/ip").to_owned(),
        ports,
        ready,
        serving: ready,
        terminating: false,
        node: text(address, "/nodeName").to_owned(),
        hostname: address["hostname"].as_str().map(str::to_owned),
        target: address["targetRef"].clone(),
    }
}
