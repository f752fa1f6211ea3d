//! Host ports: which port of the agent each container port gets.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};
use km_kube::keys;
use km_mesos_proto::v1;
use thiserror::Error;

use crate::roles;

/// How host ports are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortStrategy {
    /// Only the ports that the pod names.
    Fixed,
    /// Those, and for each container port without a host port some free one.
    Wildcard,
}

/// One range of offered ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedPorts {
    pub begin: u16,
    pub end: u16,
    /// Whom the range is reserved for, `*` when for nobody.
    pub role: String,
}

/// A host port given to a container port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortEntry {
    pub container: String,
    /// Index into the container's `ports`.
    pub index: usize,
    pub container_port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port's name, if it has one.
    pub name: Option<String>,
    pub host_port: u16,
    /// The role of the range it was taken from.
    pub role: String,
}

/// Why no mapping is possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortError {
    #[error("host port {port} is asked for twice: by container {first} and by container {second}")]
    Duplicate { port: u16, first: String, second: String },
    /// The named ports, or none when merely too few ports are offered.
    #[error("{}", not_offered(.0))]
    NotOffered(Vec<u16>),
}

fn not_offered(ports: &[u16]) -> String {
    if ports.is_empty() {
        return "fewer host ports are offered than the pod needs".to_owned();
    }
    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!("host ports not offered: {}", list.join(", "))
}

/// The strategy of a pod: its label `k8s.mesosphere.io/portMapping`, else the default (also for an unknown value).
pub fn strategy_of(pod: &Pod, default: PortStrategy) -> PortStrategy {
    match pod.metadata.labels.as_ref().and_then(|labels| labels.get(keys::PORT_MAPPING)).map(String::as_str) {
        None => default,
        Some("fixed") => PortStrategy::Fixed,
        Some("wildcard") => PortStrategy::Wildcard,
        Some(other) => {
            tracing::warn!(value = other, "label {} should be fixed or wildcard", keys::PORT_MAPPING);
            default
        }
    }
}

/// The port ranges among `resources`, in their order.
pub fn offered_ports(resources: &[v1::Resource]) -> Vec<OfferedPorts> {
    resources
        .iter()
        .filter(|resource| resource.name == "ports" && resource.revocable.is_none())
        .flat_map(|resource| {
            let role = roles::of_resource(resource).to_owned();
            let ranges = resource.ranges.iter().flat_map(|ranges| &ranges.range);
            ranges.map(move |range| OfferedPorts { begin: port(range.begin), end: port(range.end), role: role.clone() })
        })
        .collect()
}

fn port(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Chooses the host ports of a pod from what is offered, roles in the given order.
///
/// Named host ports come first. Then, with [`PortStrategy::Wildcard`], range by range each container port that still
/// has none takes the lowest port left.
pub fn map_ports(
    spec: &PodSpec,
    offered: &[OfferedPorts],
    allowed: &[String],
    strategy: PortStrategy,
) -> Result<Vec<PortEntry>, PortError> {
    let ranges: Vec<&OfferedPorts> =
        allowed.iter().flat_map(|role| offered.iter().filter(move |range| range.role == *role)).collect();
    let wanted: Vec<Wanted<'_>> = container_ports(spec).collect();
    let mut entries = named_ports(&wanted, &ranges)?;
    if strategy == PortStrategy::Wildcard {
        add_wildcards(&wanted, &ranges, &mut entries)?;
    }
    Ok(entries)
}

/// A container port of the pod.
struct Wanted<'a> {
    container: &'a Container,
    index: usize,
    port: &'a ContainerPort,
}

impl Wanted<'_> {
    fn host_port(&self) -> u16 {
        self.port.host_port.and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
    }

    fn protocol(&self) -> &str {
        self.port.protocol.as_deref().unwrap_or("TCP")
    }

    fn given(&self, host_port: u16, role: &str) -> PortEntry {
        PortEntry {
            container: self.container.name.clone(),
            index: self.index,
            container_port: u16::try_from(self.port.container_port).unwrap_or(0),
            protocol: self.protocol().to_owned(),
            name: self.port.name.clone().filter(|name| !name.is_empty()),
            host_port,
            role: role.to_owned(),
        }
    }
}

/// The ports of all containers that run as long as the pod does: containers, and init containers that restart.
fn container_ports(spec: &PodSpec) -> impl Iterator<Item = Wanted<'_>> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).flat_map(|container| {
        let ports = container.ports.iter().flatten().enumerate();
        ports.map(move |(index, port)| Wanted { container, index, port })
    })
}

fn named_ports(wanted: &[Wanted<'_>], ranges: &[&OfferedPorts]) -> Result<Vec<PortEntry>, PortError> {
    let mut entries: Vec<PortEntry> = Vec::new();
    let mut missing = Vec::new();
    for want in wanted.iter().filter(|want| want.host_port() != 0) {
        let number = want.host_port();
        // One port of an agent serves both protocols, so TCP and UDP of one pod may share it.
        let twin = entries.iter().find(|entry| entry.host_port == number && entry.protocol == want.protocol());
        if let Some(twin) = twin {
            let (first, second) = (twin.container.clone(), want.container.name.clone());
            return Err(PortError::Duplicate { port: number, first, second });
        }
        match ranges.iter().find(|range| (range.begin..=range.end).contains(&number)) {
            Some(range) => entries.push(want.given(number, &range.role)),
            None => {
                // Keeps the look-out for duplicates going.
                entries.push(want.given(number, ""));
                missing.push(number);
            }
        }
    }
    missing.dedup();
    if missing.is_empty() { Ok(entries) } else { Err(PortError::NotOffered(missing)) }
}

fn add_wildcards(
    wanted: &[Wanted<'_>],
    ranges: &[&OfferedPorts],
    entries: &mut Vec<PortEntry>,
) -> Result<(), PortError> {
    let mut taken: BTreeSet<u16> = entries.iter().map(|entry| entry.host_port).collect();
    let mut open = wanted.iter().filter(|want| want.host_port() == 0).peekable();
    for range in ranges {
        let mut candidates = (range.begin..=range.end).filter(|number| *number != 0);
        while open.peek().is_some() {
            let Some(number) = candidates.find(|number| !taken.contains(number)) else { break };
            taken.insert(number);
            if let Some(want) = open.next() {
                entries.push(want.given(number, &range.role));
            }
        }
    }
    if open.peek().is_some() { Err(PortError::NotOffered(Vec::new())) } else { Ok(()) }
}
