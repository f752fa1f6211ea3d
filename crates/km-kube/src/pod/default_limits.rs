//! Default limits of a task: what a container without requests and limits is counted with.
//!
//! Rule of the first Kubernetes-Mesos, per container and for cpu and memory each: neither request nor limit: both
//! become the default; only one of them: the other becomes equal; then each is raised to the minimum.

use crate::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as TypedQuantity;

/// The amounts that [`apply_default_limits`] uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultLimits {
    pub milli_cpu: i64,
    pub memory_bytes: i64,
    pub min_milli_cpu: i64,
    pub min_memory_bytes: i64,
}

const MIB: i64 = 1024 * 1024;

impl Default for DefaultLimits {
    /// A quarter of a CPU and 64 MiB; at least a hundredth of a CPU and 32 MiB.
    fn default() -> Self {
        Self { milli_cpu: 250, memory_bytes: 64 * MIB, min_milli_cpu: 10, min_memory_bytes: 32 * MIB }
    }
}

/// Writes requests and limits into every container of the pod; says whether anything changed.
pub fn apply_default_limits(pod: &mut Pod, defaults: &DefaultLimits) -> bool {
    let Some(spec) = pod.spec.as_mut() else { return false };
    let mut changed = false;
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let cpu = (Quantity::from_milli(defaults.milli_cpu), Quantity::from_milli(defaults.min_milli_cpu));
        let memory = (Quantity::from_bytes(defaults.memory_bytes), Quantity::from_bytes(defaults.min_memory_bytes));
        changed |= settle(container, "cpu", cpu);
        changed |= settle(container, "memory", memory);
    }
    changed
}

fn settle(container: &mut Container, name: &str, (default, minimum): (Quantity, Quantity)) -> bool {
    let resources = container.resources.get_or_insert_default();
    let requests = resources.requests.get_or_insert_default();
    let limits = resources.limits.get_or_insert_default();
    let read = |quantity: Option<&TypedQuantity>| quantity.and_then(|quantity| Quantity::try_from(quantity).ok());
    let before = (read(requests.get(name)), read(limits.get(name)));
    let (request, limit) = match before {
        (None, None) => (default, default),
        (Some(request), None) => (request, request),
        (None, Some(limit)) => (limit, limit),
        (Some(request), Some(limit)) => (request, limit),
    };
    let (request, limit) = (request.max(minimum), limit.max(minimum));
    if before == (Some(request), Some(limit)) {
        return false;
    }
    requests.insert(name.to_owned(), request.into());
    limits.insert(name.to_owned(), limit.into());
    true
}
