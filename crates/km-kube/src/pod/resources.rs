//! Sums of requests and limits over a pod, as the Kubernetes scheduler and kubelet count them.
//!
//! Rule (Kubernetes docs, "Init containers" and "Sidecar containers"): the pod needs the larger of
//! - all containers plus all sidecars (init containers with `restartPolicy: Always`), and
//! - each plain init container plus the sidecars started before it,
//!
//! plus the pod's overhead. `spec.resources` (pod level) replaces the sum of containers where it names a resource.

use crate::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as TypedQuantity;
use std::collections::BTreeMap;

/// Amounts per resource. Unset resources are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceTotals {
    /// Thousandths of a CPU, rounded up.
    pub milli_cpu: i64,
    /// Bytes, rounded up.
    pub memory_bytes: i64,
    /// Everything else (`ephemeral-storage`, extended resources), in whole units.
    pub other: BTreeMap<String, i64>,
}

impl ResourceTotals {
    fn of(list: Option<&BTreeMap<String, TypedQuantity>>) -> Self {
        let mut totals = Self::default();
        for (name, quantity) in list.into_iter().flatten() {
            // What is no quantity was refused by validation; here it counts as nothing.
            let quantity = Quantity::try_from(quantity).unwrap_or_default();
            match name.as_str() {
                "cpu" => totals.milli_cpu = quantity.milli(),
                "memory" => totals.memory_bytes = quantity.value(),
                _ => {
                    totals.other.insert(name.clone(), quantity.value());
                }
            }
        }
        totals
    }

    /// Adds every amount.
    pub fn add(&mut self, more: &Self) {
        self.milli_cpu = self.milli_cpu.saturating_add(more.milli_cpu);
        self.memory_bytes = self.memory_bytes.saturating_add(more.memory_bytes);
        for (name, amount) in &more.other {
            let sum = self.other.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Raises every amount to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        for (name, amount) in &other.other {
            let have = self.other.entry(name.clone()).or_default();
            *have = (*have).max(*amount);
        }
    }

    fn replace_named(&mut self, list: &BTreeMap<String, TypedQuantity>) {
        let named = Self::of(Some(list));
        if list.contains_key("cpu") {
            self.milli_cpu = named.milli_cpu;
        }
        if list.contains_key("memory") {
            self.memory_bytes = named.memory_bytes;
        }
        self.other.extend(named.other);
    }
}

/// A resource of a domain of its own, such as `example.com/gpu`: whole numbers, request equal to limit.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// Whether an init container keeps running beside the others.
#[must_use]
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// Whether a container requests both CPU and memory itself.
pub fn names_its_requests(container: &Container) -> bool {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.is_some_and(|requests| requests.contains_key("cpu") && requests.contains_key("memory"))
}

/// What one container asks for.
#[must_use]
pub fn container_requests(container: &Container) -> ResourceTotals {
    ResourceTotals::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

/// What one container may use at most; zero where it has no limit.
#[must_use]
pub fn container_limits(container: &Container) -> ResourceTotals {
    ResourceTotals::of(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()))
}

/// What the pod needs to start and run.
#[must_use]
pub fn requests(spec: &PodSpec) -> ResourceTotals {
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    total(spec, container_requests, pod_level)
}

/// The sum of limits by the same rule. A container without a limit adds nothing.
#[must_use]
pub fn limits(spec: &PodSpec) -> ResourceTotals {
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    total(spec, container_limits, pod_level)
}

fn total(
    spec: &PodSpec,
    of: fn(&Container) -> ResourceTotals,
    pod_level: Option<&BTreeMap<String, TypedQuantity>>,
) -> ResourceTotals {
    let mut sidecars = ResourceTotals::default();
    let mut peak = ResourceTotals::default();
    for container in spec.init_containers.iter().flatten() {
        if is_sidecar(container) {
            sidecars.add(&of(container));
            peak.raise_to(&sidecars);
        } else {
            let mut during = sidecars.clone();
            during.add(&of(container));
            peak.raise_to(&during);
        }
    }
    let mut sum = sidecars;
    for container in &spec.containers {
        sum.add(&of(container));
    }
    sum.raise_to(&peak);
    if let Some(list) = pod_level {
        sum.replace_named(list);
    }
    sum.add(&ResourceTotals::of(spec.overhead.as_ref()));
    sum
}
