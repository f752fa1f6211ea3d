//! The host ports a pod needs.

use k8s_openapi::api::core::v1::PodSpec;

/// Ports by number, and how many more, whichever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortNeed {
    pub named: Vec<HostPort>,
    pub any: usize,
}

/// A port of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` for all addresses.
    pub ip: String,
    pub protocol: String,
    pub port: u16,
}

impl HostPort {
    /// Whether two pods with these ports can't share a host.
    pub fn clashes(&self, other: &Self) -> bool {
        const ALL: &str = "0.0.0.0";
        let addresses = self.ip == other.ip || self.ip == ALL || other.ip == ALL;
        addresses && self.port == other.port && self.protocol == other.protocol
    }
}

/// The named host ports of a pod: those of its containers and of init containers that keep running.
pub fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| km_kube::pod::is_sidecar(container));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0)?;
            Some(HostPort {
                ip: port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned()),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: number,
            })
        })
        .collect()
}
