//! What leads where: a pure function of Services and EndpointSlices. Rules: Kubernetes' "Virtual IPs and Service
//! Proxies", IPv4 only.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{Service, ServicePort as Port, ServiceSpec},
    discovery::v1::{Endpoint, EndpointSlice},
};

/// The label that names an EndpointSlice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Services with this label are another proxy's.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
const DEFAULT_AFFINITY: Duration = Duration::from_secs(10_800);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl From<Protocol> for km_runtime::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Udp => Self::Udp,
        }
    }
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            _ => None,
        }
    }
}

/// One port of one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// `namespace/name:port`, for log lines and comments.
    pub name: String,
    pub protocol: Protocol,
    /// Cluster IPs and external IPs.
    pub addresses: Vec<Ipv4Addr>,
    pub port: u16,
    /// Port on every local address, except loopback ones.
    pub node_port: Option<u16>,
    /// Sorted, each once. Empty: connections are refused.
    pub endpoints: Vec<(Ipv4Addr, u16)>,
    /// How long a client stays with its endpoint (`sessionAffinity: ClientIP`).
    pub affinity: Option<Duration>,
}

/// All ports of all Services, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    pub ports: Vec<ServicePort>,
}

/// `node` is this proxy's Node: services with `internalTrafficPolicy: Local` use its endpoints only.
pub fn rules<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    node: &str,
) -> Ruleset {
    let mut by_service: BTreeMap<(&str, &str), Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        let labels = slice.metadata.labels.as_ref();
        let service = labels.and_then(|labels| labels.get(SERVICE_NAME));
        if let (Some(service), "IPv4") = (service, slice.address_type.as_str()) {
            let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
            by_service.entry((namespace, service)).or_default().push(slice);
        }
    }
    let mut ports = Vec::new();
    for service in services {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let Some(spec) = service.spec.as_ref().filter(|spec| proxied(service, spec)) else { continue };
        let slices = by_service.get(&(namespace, name)).map(Vec::as_slice).unwrap_or_default();
        for port in spec.ports.iter().flatten() {
            ports.extend(service_port(&format!("{namespace}/{name}"), spec, port, slices, node));
        }
    }
    ports.sort_by(|a, b| (&a.name, a.protocol).cmp(&(&b.name, b.protocol)));
    drop_conflicts(&mut ports);
    Ruleset { ports }
}

fn proxied(service: &Service, spec: &ServiceSpec) -> bool {
    let foreign = service.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(OTHER_PROXY));
    !foreign && spec.type_.as_deref() != Some("ExternalName")
}

fn service_port(
    service: &str,
    spec: &ServiceSpec,
    port: &Port,
    slices: &[&EndpointSlice],
    node: &str,
) -> Option<ServicePort> {
    let protocol = Protocol::parse(port.protocol.as_deref())?;
    let cluster_ips = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let addresses: BTreeSet<Ipv4Addr> =
        cluster_ips.chain(spec.external_ips.iter().flatten()).filter_map(|ip| ip.parse().ok()).collect();
    if addresses.is_empty() {
        // Headless ("None"), or without an IPv4 address yet.
        return None;
    }
    let local_only = spec.internal_traffic_policy.as_deref() == Some("Local");
    let affinity = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        let seconds = config.and_then(|config| config.timeout_seconds).and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|&seconds| seconds > 0).map_or(DEFAULT_AFFINITY, Duration::from_secs)
    });
    Some(ServicePort {
        name: format!("{service}:{}", port.name.as_deref().unwrap_or_default()),
        protocol,
        addresses: addresses.into_iter().collect(),
        port: number(port.port)?,
        node_port: port.node_port.and_then(number),
        endpoints: endpoints(port, protocol, slices, local_only.then_some(node)),
        affinity,
    })
}

fn number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|&port| port > 0)
}

/// Ready endpoints; where there is none, those that still serve while they end.
fn endpoints(port: &Port, protocol: Protocol, slices: &[&EndpointSlice], node: Option<&str>) -> Vec<(Ipv4Addr, u16)> {
    let mut ready = BTreeSet::new();
    let mut ending = BTreeSet::new();
    for slice in slices {
        let target = slice.ports.iter().flatten().find(|candidate| {
            candidate.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default()
                && Protocol::parse(candidate.protocol.as_deref()) == Some(protocol)
        });
        let Some(target) = target.and_then(|target| target.port).and_then(number) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            if node.is_some_and(|node| endpoint.node_name.as_deref() != Some(node)) {
                continue;
            }
            // All addresses of an endpoint are the same endpoint; the first counts.
            let Some(ip) = endpoint.addresses.first().and_then(|address| address.parse().ok()) else { continue };
            match state(endpoint) {
                State::Ready => ready.insert((ip, target)),
                State::Ending => ending.insert((ip, target)),
                State::Out => false,
            };
        }
    }
    if ready.is_empty() { ending } else { ready }.into_iter().collect()
}

enum State {
    Ready,
    Ending,
    Out,
}

fn state(endpoint: &Endpoint) -> State {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    if conditions.ready.unwrap_or(true) {
        State::Ready
    } else if conditions.serving.unwrap_or(false) && conditions.terminating.unwrap_or(false) {
        State::Ending
    } else {
        State::Out
    }
}

/// An address and port, or a node port, leads to one Service only: the first by name. The API server prevents
/// conflicts except for external IPs.
fn drop_conflicts(ports: &mut Vec<ServicePort>) {
    let mut taken = BTreeSet::new();
    let mut taken_node_ports = BTreeSet::new();
    for port in ports.iter_mut() {
        let (protocol, number) = (port.protocol, port.port);
        port.addresses.retain(|address| taken.insert((*address, protocol, number)));
        port.node_port = port.node_port.filter(|node_port| taken_node_ports.insert((protocol, *node_port)));
    }
    ports.retain(|port| !port.addresses.is_empty() || port.node_port.is_some());
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub fn service(spec: Value) -> Service {
        serde_json::from_value(json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": spec })).unwrap()
    }

    pub fn slice(port: u16, endpoints: Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": "web-1", "namespace": "default", "labels": { SERVICE_NAME: "web" } },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
            "endpoints": endpoints,
        }))
        .unwrap()
    }

    fn plain() -> Value {
        json!({ "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
                "ports": [{ "name": "http", "port": 80, "nodePort": 30080 }] })
    }

    #[test]
    fn endpoints_of_all_slices_are_joined() {
        let slices = [
            slice(8080, json!([{ "addresses": ["10.88.0.3"] }, { "addresses": ["10.88.0.2"] }])),
            slice(8081, json!([{ "addresses": ["10.88.0.2"] }, { "addresses": ["bad"] }])),
        ];
        let found = rules(&[service(plain())], &slices, "n");
        assert_eq!(
            found.ports,
            [ServicePort {
                name: "default/web:http".into(),
                protocol: Protocol::Tcp,
                addresses: vec!["10.96.0.7".parse().unwrap()],
                port: 80,
                node_port: Some(30080),
                endpoints: vec![
                    ("10.88.0.2".parse().unwrap(), 8080),
                    ("10.88.0.2".parse().unwrap(), 8081),
                    ("10.88.0.3".parse().unwrap(), 8080),
                ],
                affinity: None,
            }]
        );
    }

    #[test]
    fn only_endpoints_that_can_serve_are_used() {
        let endpoint = |ip: &str, ready: bool, serving: bool, terminating: bool| {
            json!({ "addresses": [ip],
                    "conditions": { "ready": ready, "serving": serving, "terminating": terminating } })
        };
        for (endpoints, expected) in [
            (
                json!([endpoint("10.0.0.1", true, true, false), endpoint("10.0.0.2", false, true, true)]),
                vec!["10.0.0.1"],
            ),
            (
                json!([endpoint("10.0.0.1", false, false, false), endpoint("10.0.0.2", false, true, true)]),
                vec!["10.0.0.2"],
            ),
            (json!([endpoint("10.0.0.1", false, true, false)]), vec![]),
            (json!([{ "addresses": ["10.0.0.9"], "conditions": {} }]), vec!["10.0.0.9"]),
        ] {
            let found = rules(&[service(plain())], &[slice(80, endpoints.clone())], "n");
            let ips: Vec<String> = found.ports[0].endpoints.iter().map(|(ip, _)| ip.to_string()).collect();
            assert_eq!(ips, expected, "{endpoints}");
        }
    }

    #[test]
    fn services_without_address_are_not_proxied() {
        for spec in [
            json!({ "clusterIP": "None", "clusterIPs": ["None"], "ports": [{ "name": "http", "port": 80 }] }),
            json!({ "type": "ExternalName", "externalName": "x.y", "ports": [{ "name": "http", "port": 80 }] }),
            json!({ "clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ports": [{ "name": "http", "port": 80 }] }),
            json!({ "clusterIP": "10.96.0.7", "ports": [{ "name": "http", "port": 80, "protocol": "SCTP" }] }),
        ] {
            assert_eq!(rules(&[service(spec.clone())], &[], "n").ports, [], "{spec}");
        }
        let mut other = service(plain());
        other.metadata.labels = Some([(OTHER_PROXY.to_owned(), "x".to_owned())].into());
        assert_eq!(rules(&[other], &[], "n").ports, []);
    }

    #[test]
    fn local_traffic_stays_on_the_node() {
        let mut spec = plain();
        spec["internalTrafficPolicy"] = json!("Local");
        spec["sessionAffinity"] = json!("ClientIP");
        let slices = [slice(
            80,
            json!([{ "addresses": ["10.0.0.1"], "nodeName": "a" }, { "addresses": ["10.0.0.2"], "nodeName": "b" }]),
        )];
        let found = rules(&[service(spec)], &slices, "b");
        assert_eq!(found.ports[0].endpoints, [("10.0.0.2".parse().unwrap(), 80)]);
        assert_eq!(found.ports[0].affinity, Some(DEFAULT_AFFINITY));
    }

    #[test]
    fn an_external_address_leads_to_one_service_only() {
        let mut other = service(json!({ "clusterIP": "10.96.0.8", "externalIPs": ["10.96.0.7"],
                                        "ports": [{ "name": "http", "port": 80 }] }));
        other.metadata.name = Some("zeb".into());
        let found = rules(&[other, service(plain())], &[], "n");
        let addresses: Vec<_> = found.ports.iter().map(|port| (port.name.as_str(), port.addresses.len())).collect();
        assert_eq!(addresses, [("default/web:http", 1), ("default/zeb:http", 1)]);
    }
}
