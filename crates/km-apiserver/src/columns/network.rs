//! Services, endpoints, endpoint slices.

use serde_json::Value;

use super::{Column, age, at, count, labels, list, name, or_none, text, wide};

pub const SERVICES: &[Column] = &[
    text("Name"),
    text("Type"),
    text("Cluster-IP"),
    text("External-IP"),
    text("Port(s)"),
    text("Age"),
    wide("Selector"),
];

pub fn service(service: &Value) -> Vec<Value> {
    let kind = at(service, "/spec/type");
    let ports: Vec<String> = list(service, "/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (count(port, "/port"), at(port, "/protocol"));
            match count(port, "/nodePort") {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        })
        .collect();
    vec![
        name(service),
        kind.into(),
        or_none(at(service, "/spec/clusterIP")),
        external(service, kind).into(),
        or_none(&ports.join(",")),
        age(service),
        labels(service.pointer("/spec/selector")).into(),
    ]
}

fn external(service: &Value, kind: &str) -> String {
    let mut addresses: Vec<&str> = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    if kind == "ExternalName" {
        return at(service, "/spec/externalName").to_owned();
    }
    if kind == "LoadBalancer" {
        for ingress in list(service, "/status/loadBalancer/ingress") {
            let ip = at(ingress, "/ip");
            addresses.push(if ip.is_empty() { at(ingress, "/hostname") } else { ip });
        }
        if addresses.is_empty() {
            return "<pending>".to_owned();
        }
    }
    if addresses.is_empty() { "<none>".to_owned() } else { addresses.join(",") }
}

pub const ENDPOINTS: &[Column] = &[text("Name"), text("Endpoints"), text("Age")];

/// As many addresses as the stock server shows.
const SHOWN: usize = 3;

pub fn endpoints(object: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for subset in list(object, "/subsets") {
        let ports = list(subset, "/ports");
        for address in list(subset, "/addresses") {
            let ip = at(address, "/ip");
            if ports.is_empty() {
                found.push(ip.to_owned());
            }
            found.extend(ports.iter().map(|port| format!("{ip}:{}", count(port, "/port"))));
        }
    }
    vec![name(object), shortened(&found).into(), age(object)]
}

fn shortened(all: &[String]) -> String {
    match all.len() {
        0 => "<none>".to_owned(),
        1..=SHOWN => all.join(","),
        more => format!("{} + {} more...", all[..SHOWN].join(","), more - SHOWN),
    }
}

pub const SLICES: &[Column] = &[text("Name"), text("AddressType"), text("Ports"), text("Endpoints"), text("Age")];

pub fn slice(slice: &Value) -> Vec<Value> {
    let ports: Vec<String> = list(slice, "/ports")
        .iter()
        .map(|port| match count(port, "/port") {
            0 => "*".to_owned(),
            number => number.to_string(),
        })
        .collect();
    let addresses: Vec<String> = list(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    let unset = |text: String| if text == "<none>" { "<unset>".to_owned() } else { text };
    vec![
        name(slice),
        at(slice, "/addressType").into(),
        unset(shortened(&ports)).into(),
        unset(shortened(&addresses)).into(),
        age(slice),
    ]
}
