//! Endpoints and EndpointSlices of services with a selector.
//!
//! With host ports (the way of Kubernetes-Mesos) an endpoint is the agent's address and the host port that the
//! scheduler chose for the container port; the pod's annotations say which. Without, it is the pod's own address.

mod address;
mod endpoints_object;
mod slices;

use crate::core::{Action, Key, Plan, PodView, Resource, World, labels_at, text};
use address::Endpoint;
use km_kube::selector::LabelSelector;
use serde_json::Value;

/// Label of Endpoints that we made.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Value of the label of slices that we made.
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";

pub(crate) fn reconcile(world: &World, key: &Key, host_ports: bool) -> Plan {
    let have_endpoints = world.get(&Resource::endpoints(), key);
    let have_slices: Vec<&Value> = world
        .within(&Resource::endpoint_slices(), &key.namespace)
        .filter(|slice| slices::is_ours(slice, &key.name))
        .collect();
    let service = world.get(&Resource::services(), key);
    let Some(service) = service.filter(|service| text(service, "/metadata/deletionTimestamp").is_empty()) else {
        let leftover = have_endpoints.filter(|object| endpoints_object::is_ours(object));
        let endpoints = leftover.map(|object| delete(Resource::endpoints(), object));
        let slices = have_slices.into_iter().map(|object| delete(Resource::endpoint_slices(), object));
        return Plan::new(endpoints.into_iter().chain(slices).collect());
    };
    let selector = labels_at(service, "/spec/selector");
    // Who gives no selector writes the endpoints himself. An external name has none.
    if selector.is_empty() || text(service, "/spec/type") == "ExternalName" {
        return Plan::default();
    }
    let selector = LabelSelector::from_map(&selector);
    let pods: Vec<&PodView> = world.pods_within(&key.namespace).filter(|pod| selector.matches(&pod.labels)).collect();
    let found: Vec<Endpoint> = pods.iter().filter_map(|pod| address::endpoint(service, pod, host_ports)).collect();
    let mut actions: Vec<Action> = endpoints_object::change(service, key, &found, have_endpoints).into_iter().collect();
    actions.extend(slices::changes(service, key, &found, &have_slices));
    Plan::new(actions)
}

fn delete(resource: Resource, object: &Value) -> Action {
    Action::Delete {
        resource,
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
        propagation: None,
    }
}

#[cfg(test)]
mod tests;
