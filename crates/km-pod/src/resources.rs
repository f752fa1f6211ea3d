//! CPU and memory of a container as the runtime wants them.

use k8s_openapi::api::core::v1::Container;
use km_kube::quantity::Quantity;

/// What the node has for pods; stands in where a container sets no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocatable {
    pub milli_cpu: i64,
    pub memory_bytes: i64,
}

/// `limits` or `requests` of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Limits,
    Requests,
}

/// The quantity of a resource, when set and well-formed (the API server lets no other through).
pub(crate) fn quantity(container: &Container, side: Side, name: &str) -> Option<Quantity> {
    let resources = container.resources.as_ref()?;
    let map = match side {
        Side::Limits => resources.limits.as_ref(),
        Side::Requests => resources.requests.as_ref(),
    };
    Quantity::parse(&map?.get(name)?.0).ok()
}

/// CPU shares of the request (1024 for one CPU, at least 2), falling back to the limit as the API server's defaults do.
pub fn cpu_shares(container: &Container) -> u64 {
    let request = quantity(container, Side::Requests, "cpu").or_else(|| quantity(container, Side::Limits, "cpu"));
    let milli = request.map_or(0, |quantity| quantity.milli());
    let milli = u64::try_from(milli).unwrap_or_default();
    (milli.saturating_mul(1024) / 1000).clamp(2, 262_144)
}

/// CPU limit in thousandths of a CPU; 0: none.
pub fn cpu_limit_milli(container: &Container) -> u64 {
    let milli = quantity(container, Side::Limits, "cpu").map_or(0, |quantity| quantity.milli());
    u64::try_from(milli).unwrap_or_default()
}

/// Memory limit in bytes; 0: none.
pub fn memory_limit_bytes(container: &Container) -> u64 {
    let bytes = quantity(container, Side::Limits, "memory").map_or(0, |quantity| quantity.value());
    u64::try_from(bytes).unwrap_or_default()
}
