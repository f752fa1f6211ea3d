//! How much of an agent a pod is counted with.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use km_kube::{
    keys,
    pod::{self, DefaultLimits, ResourceTotals},
    quantity::Quantity,
};

/// Which numbers of a pod are taken from the offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Accounting {
    /// Requests, as Kubernetes does. A container that names neither request nor limit is counted with the default, but
    /// its limits stay open.
    #[default]
    Requests,
    /// Limits, as the first Kubernetes-Mesos did: requests and limits are filled in and raised, and containers are held
    /// to them.
    Limits,
}

/// The pod's amounts, as `accounting` says. In the mode [`Accounting::Limits`] the limits are written into the pod (and
/// an annotation that says so), which is the copy that the executor gets; the pod in the API server stays as it is.
pub fn settle(pod: &mut Pod, accounting: Accounting, defaults: &DefaultLimits) -> ResourceTotals {
    match accounting {
        Accounting::Limits => {
            pod::apply_default_limits(pod, defaults);
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::COUNTED.to_owned(), keys::COUNTED_LIMITS.to_owned());
            pod.spec.as_ref().map(pod::limits).unwrap_or_default()
        }
        Accounting::Requests => requests(pod, defaults),
    }
}

/// The same for a pod that others hold, too: it is copied only if it changes.
pub fn settle_shared(pod: &mut Arc<Pod>, accounting: Accounting, defaults: &DefaultLimits) -> ResourceTotals {
    match accounting {
        Accounting::Limits => settle(Arc::make_mut(pod), accounting, defaults),
        Accounting::Requests => requests(pod, defaults),
    }
}

fn requests(pod: &Pod, defaults: &DefaultLimits) -> ResourceTotals {
    let Some(spec) = &pod.spec else { return ResourceTotals::default() };
    let mut totals = pod::requests(&with_default_requests(spec, defaults));
    // Mesos refuses a task without resources.
    totals.milli_cpu = totals.milli_cpu.max(defaults.min_milli_cpu);
    totals.memory_bytes = totals.memory_bytes.max(defaults.min_memory_bytes);
    totals
}

/// Most pods name all requests and aren't copied.
fn with_default_requests<'a>(spec: &'a PodSpec, defaults: &DefaultLimits) -> Cow<'a, PodSpec> {
    let pod_level = spec.resources.as_ref().is_some_and(|resources| resources.requests.is_some());
    if pod_level || spec.containers.iter().all(pod::names_its_requests) {
        return Cow::Borrowed(spec);
    }
    let mut counted = spec.clone();
    for container in &mut counted.containers {
        let resources = container.resources.get_or_insert_default();
        for (name, default) in
            [("cpu", Quantity::from_milli(defaults.milli_cpu)), ("memory", Quantity::from_bytes(defaults.memory_bytes))]
        {
            let limit = resources.limits.as_ref().and_then(|limits| limits.get(name)).cloned();
            let requests = resources.requests.get_or_insert_default();
            requests.entry(name.to_owned()).or_insert_with(|| limit.unwrap_or_else(|| default.into()));
        }
    }
    Cow::Owned(counted)
}
