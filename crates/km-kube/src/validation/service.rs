//! Services, endpoints and endpoint slices.

use super::at::{At, Errors};
use super::error::FieldError;
use super::meta;
use crate::names;
use serde_json::json;
use std::net::IpAddr;

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) fn service(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    let kind = spec.field("type");
    let headless = spec.field("clusterIP").text() == "None";
    kind.one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    spec.field("sessionAffinity").one_of(&["ClientIP", "None"], errors);
    spec.field("externalTrafficPolicy").one_of(&["Cluster", "Local"], errors);
    spec.field("internalTrafficPolicy").one_of(&["Cluster", "Local"], errors);
    meta::labels(&spec.field("selector"), errors);
    if kind.text() == "ExternalName" {
        spec.field("externalName").need_text(names::dns1123_subdomain, errors);
        if !matches!(spec.field("clusterIP").text(), "" | "None") {
            errors.push(spec.field("clusterIP").forbidden("may not be set for ExternalName services"));
        }
    } else if !headless {
        spec.field("ports").need(errors);
    }
    if headless && matches!(kind.text(), "NodePort" | "LoadBalancer") {
        let detail = format!("may not be set to 'None' for {} services", kind.text());
        errors
            .push(At { path: "spec.clusterIPs[0]".to_owned(), value: spec.field("clusterIP").value }.invalid(&detail));
    }
    cluster_ips(&spec, errors);
    ports(&spec, errors);
    for ip in spec.field("externalIPs").items() {
        if ip.text().parse::<IpAddr>().is_err() {
            errors.push(ip.invalid(IP));
        }
    }
    let timeout = spec.down("sessionAffinityConfig.clientIP.timeoutSeconds");
    if timeout.integer().is_some_and(|seconds| !(1..=86_400).contains(&seconds)) {
        errors.push(timeout.invalid("must be greater than 0 and less than 86400"));
    }
}

fn cluster_ips(spec: &At<'_>, errors: &mut Errors) {
    let (single, list) = (spec.field("clusterIP"), spec.field("clusterIPs").items());
    if let Some(first) = list.first()
        && !single.is_empty()
        && first.value != single.value
    {
        errors.push(spec.field("clusterIPs").invalid("first value must match `clusterIP`"));
    }
    let whole =
        if list.is_empty() { vec![At { path: "spec.clusterIPs[0]".to_owned(), value: single.value }] } else { list };
    for ip in whole {
        if !matches!(ip.text(), "" | "None") && ip.text().parse::<IpAddr>().is_err() {
            errors.push(ip.invalid(IP));
        }
    }
}

fn ports(spec: &At<'_>, errors: &mut Errors) {
    let list = spec.field("ports");
    list.unique("name", errors);
    let several = list.items().len() > 1;
    let mut seen = Vec::new();
    for port in list.items() {
        if several {
            port.field("name").need(errors);
        }
        port.field("name").follows(names::dns1123_label, errors);
        if port.field("port").integer().is_none() {
            errors.push(port.field("port").required(""));
        }
        port.field("port").port(errors);
        port.field("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
        port.field("targetPort").port_or_name(errors);
        node_port(spec, &port, errors);
        let key = (port.field("protocol").text(), port.field("port").integer());
        if seen.contains(&key) {
            errors.push(FieldError::duplicate(port.path.clone(), &json!({"port": key.1, "protocol": key.0})));
        }
        seen.push(key);
    }
}

fn node_port(spec: &At<'_>, port: &At<'_>, errors: &mut Errors) {
    let at = port.field("nodePort");
    if at.integer().is_none_or(|number| number == 0) {
        return;
    }
    if spec.field("type").text() == "ClusterIP" {
        errors.push(at.forbidden("may not be used when `type` is 'ClusterIP'"));
    }
    at.port(errors);
}

pub(super) fn service_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (spec, old) = (root.field("spec"), before.field("spec"));
    let given = |spec: &At<'_>| spec.field("type").text() != "ExternalName";
    let (new_ip, old_ip) = (spec.field("clusterIP"), old.field("clusterIP"));
    if given(&spec) && given(&old) && !old_ip.is_empty() && new_ip.value != old_ip.value {
        let shown = json!([new_ip.value]);
        errors.push(FieldError::invalid("spec.clusterIPs[0]", &shown, "may not change once set"));
    }
}

pub(super) fn endpoints(root: &At<'_>, errors: &mut Errors) {
    for subset in root.field("subsets").items() {
        let lists = ["addresses", "notReadyAddresses"].map(|name| subset.field(name));
        if lists.iter().all(At::is_empty) {
            errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in lists.iter().flat_map(At::items) {
            endpoint_ip(&address.field("ip"), errors);
        }
        let several = subset.field("ports").items().len() > 1;
        for port in subset.field("ports").items() {
            if several {
                port.field("name").need(errors);
            }
            port.field("port").port(errors);
            port.field("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
        }
    }
}

fn endpoint_ip(at: &At<'_>, errors: &mut Errors) {
    match at.text().parse::<IpAddr>() {
        Err(_) => errors.push(at.invalid(IP)),
        Ok(ip) if ip.is_unspecified() => errors.push(at.invalid("may not be unspecified (0.0.0.0 or ::)")),
        // Loopback is fine, unlike in Kubernetes: on one machine the agents' host address may be 127.0.0.1.
        Ok(_) => {}
    }
}

pub(super) fn endpoint_slice(root: &At<'_>, errors: &mut Errors) {
    let kind = root.field("addressType");
    if kind.need(errors) {
        kind.one_of(&["FQDN", "IPv4", "IPv6"], errors);
    }
    if root.field("endpoints").items().len() > 1000 {
        errors.push(root.field("endpoints").invalid("must have at most 1000 items"));
    }
    for endpoint in root.field("endpoints").items() {
        endpoint.field("addresses").need(errors);
        for address in endpoint.field("addresses").items() {
            match kind.text() {
                "FQDN" => address.follows(names::dns1123_subdomain, errors),
                "IPv4" if address.text().parse::<std::net::Ipv4Addr>().is_err() => {
                    errors.push(address.invalid("must be an IPv4 address"));
                }
                "IPv6" if address.text().parse::<std::net::Ipv6Addr>().is_err() => {
                    errors.push(address.invalid("must be an IPv6 address"));
                }
                _ => {}
            }
        }
    }
    root.field("ports").unique("name", errors);
    for port in root.field("ports").items() {
        port.field("name").follows(names::dns1123_label, errors);
        port.field("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
    }
}
