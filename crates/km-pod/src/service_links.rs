//! The variables by which containers find services (Kubernetes docs, "Discovering services: environment variables").
//!
//! Every container gets those of `default/kubernetes`, the API server; a pod with `enableServiceLinks` also those of
//! its own namespace. A service without a cluster IP has none.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use k8s_openapi::api::core::v1::{PodSpec, Service, ServicePort};

/// Namespace and name of the API server's own service.
pub const MASTER: (&str, &str) = ("default", "kubernetes");

/// Whether a pod wants to know the services of its namespace: it does unless it says otherwise.
pub fn wanted(spec: &PodSpec) -> bool {
    spec.enable_service_links != Some(false)
}

/// The variables of all these services, `services` being those of the pod's namespace; there a service that is called
/// as the API server's is found in its place.
pub fn variables<'a>(master: Option<&'a Service>, services: &'a [Service]) -> BTreeMap<String, String> {
    master.into_iter().chain(services).flat_map(of_service).collect()
}

fn of_service(service: &Service) -> Vec<(String, String)> {
    let spec = service.spec.clone().unwrap_or_default();
    let ports = spec.ports.unwrap_or_default();
    let address = spec.cluster_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let (Some(ip), Some(first)) = (address, ports.first()) else { return Vec::new() };
    let name = variable(service.metadata.name.as_deref().unwrap_or_default());
    let mut found = vec![
        (format!("{name}_SERVICE_HOST"), ip.to_string()),
        (format!("{name}_SERVICE_PORT"), first.port.to_string()),
        (format!("{name}_PORT"), url(ip, first)),
    ];
    for port in &ports {
        if let Some(called) = port.name.as_deref().filter(|called| !called.is_empty()) {
            found.push((format!("{name}_SERVICE_PORT_{}", variable(called)), port.port.to_string()));
        }
        let (protocol, number) = (protocol(port), port.port);
        let prefix = format!("{name}_PORT_{number}_{protocol}");
        found.push((format!("{prefix}_PROTO"), protocol.to_lowercase()));
        found.push((format!("{prefix}_PORT"), number.to_string()));
        found.push((format!("{prefix}_ADDR"), ip.to_string()));
        found.push((prefix, url(ip, port)));
    }
    found
}

fn variable(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn url(ip: IpAddr, port: &ServicePort) -> String {
    let number = u16::try_from(port.port).unwrap_or_default();
    format!("{}://{}", protocol(port).to_lowercase(), SocketAddr::new(ip, number))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn service(name: &str, ip: Value, ports: Value) -> Service {
        from_value(json!({"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": ports}})).unwrap()
    }

    fn lines(master: Option<&Service>, services: &[Service]) -> Vec<String> {
        variables(master, services).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_service_is_told_in_both_ways() {
        let ports = json!([{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]);
        let expected = [
            "REDIS_MASTER_PORT=tcp://10.0.0.11:80",
            "REDIS_MASTER_PORT_53_UDP=udp://10.0.0.11:53",
            "REDIS_MASTER_PORT_53_UDP_ADDR=10.0.0.11",
            "REDIS_MASTER_PORT_53_UDP_PORT=53",
            "REDIS_MASTER_PORT_53_UDP_PROTO=udp",
            "REDIS_MASTER_PORT_80_TCP=tcp://10.0.0.11:80",
            "REDIS_MASTER_PORT_80_TCP_ADDR=10.0.0.11",
            "REDIS_MASTER_PORT_80_TCP_PORT=80",
            "REDIS_MASTER_PORT_80_TCP_PROTO=tcp",
            "REDIS_MASTER_SERVICE_HOST=10.0.0.11",
            "REDIS_MASTER_SERVICE_PORT=80",
            "REDIS_MASTER_SERVICE_PORT_DNS_UDP=53",
            "REDIS_MASTER_SERVICE_PORT_HTTP=80",
        ];
        assert_eq!(lines(None, &[service("redis-master", json!("10.0.0.11"), ports)]), expected);
    }

    #[test]
    fn the_odd_ones() {
        let port = || json!([{"port": 80}]);
        for (what, one) in [
            ("headless", service("s", json!("None"), port())),
            ("not allocated", service("s", json!(""), port())),
            ("elsewhere", service("s", Value::Null, port())),
            ("without ports", service("s", json!("10.0.0.1"), json!([]))),
        ] {
            assert_eq!(lines(None, &[one]), [""; 0], "{what}");
        }
        let six = lines(None, &[service("s", json!("fd00::1"), port())]);
        assert!(six.contains(&"S_PORT=tcp://[fd00::1]:80".to_owned()), "{six:?}");
        let (master, own) =
            (service("kubernetes", json!("10.0.0.1"), port()), service("kubernetes", json!("10.0.0.2"), port()));
        assert!(lines(Some(&master), &[own]).contains(&"KUBERNETES_SERVICE_HOST=10.0.0.2".to_owned()));
        assert!(wanted(&PodSpec::default()));
        assert!(!wanted(&PodSpec { enable_service_links: Some(false), ..Default::default() }));
    }
}
