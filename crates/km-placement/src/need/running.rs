//! What a running pod is counted with while it is being resized in place.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use km_kube::quantity::Quantity as Amount;

use crate::Amounts;

type Requests = BTreeMap<String, Quantity>;

/// The larger of what the pod asks for, what it is allocated and what it has; without what it asks for when the node
/// called that infeasible. (Kubernetes, in-place resize of pods.)
pub fn running_requests(pod: &Pod) -> Amounts {
    let Some(mut spec) = pod.spec.clone() else { return Amounts::default() };
    let Some(status) = &pod.status else { return km_kube::pod::requests(&spec) };
    let infeasible =
        status.conditions.iter().flatten().any(|condition| {
            condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
        });
    let statuses: Vec<&ContainerStatus> =
        status.container_statuses.iter().chain(&status.init_container_statuses).flatten().collect();
    let settle = |container: &mut Container| {
        let Some(status) = statuses.iter().find(|status| status.name == container.name) else { return };
        let actual = status.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let allocated = status.allocated_resources.as_ref();
        if actual.is_none() && allocated.is_none() {
            return;
        }
        let wanted = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let wanted = wanted.filter(|_| !infeasible);
        let largest = largest([wanted, actual, allocated].into_iter().flatten());
        container.resources.get_or_insert_default().requests = Some(largest);
    };
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()).for_each(settle);
    km_kube::pod::requests(&spec)
}

fn largest<'a>(lists: impl Iterator<Item = &'a Requests>) -> Requests {
    let mut all = Requests::new();
    for (name, quantity) in lists.flatten() {
        let size = |quantity: &Quantity| Amount::try_from(quantity).map_or(0, |amount| amount.nanos());
        let known = all.entry(name.clone()).or_insert_with(|| quantity.clone());
        if size(quantity) > size(known) {
            *known = quantity.clone();
        }
    }
    all
}
