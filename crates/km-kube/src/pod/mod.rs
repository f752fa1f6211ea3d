//! What a scheduler or kubelet asks about a pod: resources, quality of service, host ports, phase.

mod default_limits;
mod ports;
mod qos;
mod resources;
mod state;

pub use default_limits::{DefaultLimits, apply_default_limits};
pub use ports::{HostPort, host_ports};
pub use qos::{QosClass, qos_class};
pub use resources::{
    ResourceTotals, container_limits, container_requests, is_extended, is_sidecar, limits, names_its_requests, requests,
};
pub use state::{is_deleting, is_mirror, is_ready, is_scheduled, is_terminal, phase};

#[cfg(test)]
mod tests;
