//! A pod that waits for a place.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::Amounts;

/// A waiting pod with what placement needs to know of it.
#[derive(Clone, Debug, Default)]
pub struct PendingPod {
    pub pod: Arc<Pod>,
    /// What it takes of an agent.
    pub amounts: Amounts,
    /// Reservation roles it may take from, the preferred first.
    pub roles: Vec<String>,
    pub ports: PortNeed,
    /// Pods of the same owner are spread over the nodes. Usually the UID of the controller.
    pub owner: Option<String>,
    /// Higher goes first, then the lower `queued`.
    pub priority: i32,
    pub queued: u64,
}

/// The host ports a pod needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortNeed {
    pub named: Vec<HostPort>,
    /// How many more, whichever.
    pub any: usize,
}

/// A port of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
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
