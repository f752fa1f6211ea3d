//! Host ports that a pod's manifest asks for.

use k8s_openapi::api::core::v1::PodSpec;

/// One port of the host that the pod occupies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Index in `spec.containers`.
    pub container: usize,
    /// Index in that container's `ports`.
    pub port: usize,
    /// 1 to 65535.
    pub host_port: u16,
    pub container_port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Empty means all addresses.
    pub host_ip: String,
}

/// The declared host ports in declaration order; with `hostNetwork` every container port is one.
#[must_use]
pub fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let host_network = spec.host_network == Some(true);
    let mut found = Vec::new();
    for (container, of) in spec.containers.iter().enumerate() {
        for (port, declared) in of.ports.iter().flatten().enumerate() {
            let implied = if host_network { declared.container_port } else { 0 };
            let wanted = declared.host_port.filter(|port| *port != 0).unwrap_or(implied);
            // Ports out of range were refused by validation.
            let (Ok(host_port), Ok(container_port)) = (u16::try_from(wanted), u16::try_from(declared.container_port))
            else {
                continue;
            };
            if host_port == 0 {
                continue;
            }
            let protocol = declared.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let host_ip = declared.host_ip.clone().unwrap_or_default();
            found.push(HostPort { container, port, host_port, container_port, protocol, host_ip });
        }
    }
    found
}
