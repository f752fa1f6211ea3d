//! What every namespace has from birth: the service account `default` and the config map with the cluster's
//! certificate authority.

use crate::core::{Action, Key, Plan, Resource, World, text};
use serde_json::{Value, json};

/// Name of the config map.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

pub(crate) fn reconcile(world: &World, name: &str, root_ca: Option<&str>) -> Plan {
    let namespace = world.get(&Resource::namespaces(), &Key::new("", name));
    // Nothing can be made in a namespace on its way out.
    if namespace.is_none_or(|namespace| !text(namespace, "/metadata/deletionTimestamp").is_empty()) {
        return Plan::default();
    }
    let mut actions = Vec::new();
    let accounts = Resource::service_accounts();
    if world.get(&accounts, &Key::new(name, "default")).is_none() {
        actions.push(create(accounts, name, json!({"metadata": {"name": "default", "namespace": name}})));
    }
    if let Some(pem) = root_ca {
        actions.extend(certificate(world, name, pem));
    }
    Plan::new(actions)
}

fn certificate(world: &World, namespace: &str, pem: &str) -> Option<Action> {
    let resource = Resource::config_maps();
    let object = json!({
        "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description":
            "The certificate authority of this cluster's API server, for clients inside pods."}},
        "data": {"ca.crt": pem},
    });
    match world.get(&resource, &Key::new(namespace, ROOT_CA)) {
        None => Some(create(resource, namespace, object)),
        Some(have) if have["data"] != object["data"] => Some(Action::Patch {
            resource,
            namespace: namespace.to_owned(),
            name: ROOT_CA.to_owned(),
            subresource: None,
            patch: json!({"data": {"ca.crt": pem}}),
        }),
        Some(_) => None,
    }
}

fn create(resource: Resource, namespace: &str, mut object: Value) -> Action {
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    Action::Create { resource, namespace: namespace.to_owned(), object }
}
