//! Endpoints and EndpointSlices of services: by their selector, or as somebody wrote them.
//!
//! With host ports (the way of Kubernetes-Mesos) an endpoint is the agent's address and the host port that the
//! scheduler chose for the container port; the pod's annotations say which. Without, it is the pod's own address.

mod address;
mod endpoints_object;
mod mirror;
mod slices;

use crate::core::{Action, Key, Plan, PodView, Resource, World, labels_at, text};
use address::Endpoint;
use km_kube::selector::LabelSelector;
use serde_json::Value;
use slices::Origin;

/// Label of Endpoints that we made.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// Value of the label of slices that we made.
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
/// The same for slices that repeat what somebody wrote into an Endpoints object.
const MIRROR_MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

pub(crate) fn reconcile(world: &World, key: &Key, host_ports: bool) -> Plan {
    let have_endpoints = world.get(&Resource::endpoints(), key);
    let slices_of = |manager: &str| -> Vec<&Value> {
        let slices = world.within(&Resource::endpoint_slices(), &key.namespace);
        slices.filter(|slice| slices::is_ours(slice, &key.name, manager)).collect()
    };
    let (have_slices, have_mirrors) = (slices_of(SLICE_MANAGER), slices_of(MIRROR_MANAGER));
    let delete_slices = |slices: Vec<&Value>| -> Vec<Action> {
        slices.into_iter().map(|object| delete(Resource::endpoint_slices(), object)).collect()
    };
    let service = world.get(&Resource::services(), key);
    let Some(service) = service.filter(|service| text(service, "/metadata/deletionTimestamp").is_empty()) else {
        let leftover = have_endpoints.filter(|object| endpoints_object::is_ours(object));
        let endpoints = leftover.map(|object| delete(Resource::endpoints(), object));
        let slices = [have_slices, have_mirrors].into_iter().flat_map(delete_slices);
        return Plan::new(endpoints.into_iter().chain(slices).collect());
    };
    let selector = labels_at(service, "/spec/selector");
    // Who gives no selector writes the endpoints himself. An external name has none.
    if selector.is_empty() || text(service, "/spec/type") == "ExternalName" {
        let written = have_endpoints.filter(|object| selector.is_empty() && mirror::is_wanted(object));
        let Some(object) = written else { return Plan::new(delete_slices(have_mirrors)) };
        let origin =
            Origin { object, resource: Resource::endpoints(), manager: MIRROR_MANAGER, headless: is_headless(service) };
        return Plan::new(slices::changes(&origin, key, &mirror::endpoints(object), &have_mirrors));
    }
    let selector = LabelSelector::from_map(&selector);
    let pods: Vec<&PodView> = world.pods_within(&key.namespace).filter(|pod| selector.matches(&pod.labels)).collect();
    let found: Vec<Endpoint> = pods.iter().filter_map(|pod| address::endpoint(service, pod, host_ports)).collect();
    let mut actions: Vec<Action> = endpoints_object::change(service, key, &found, have_endpoints).into_iter().collect();
    let origin = Origin {
        object: service,
        resource: Resource::services(),
        manager: SLICE_MANAGER,
        headless: is_headless(service),
    };
    actions.extend(slices::changes(&origin, key, &found, &have_slices));
    actions.extend(delete_slices(have_mirrors));
    Plan::new(actions)
}

fn is_headless(service: &Value) -> bool {
    text(service, "/spec/clusterIP") == "None"
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
