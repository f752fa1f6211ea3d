//! The services that a container is told of.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;
use km_pod::service_links;

use crate::{
    api::{Api, PodKey},
    retry::while_unavailable,
};

/// The variables of services for the pod's containers. One or two calls for each start of a container. Static pods are
/// told of none: they start without an API server.
///
/// # Errors
/// The server refuses to tell of them.
pub async fn variables(api: &dyn Api, pod: &Pod) -> Result<BTreeMap<String, String>, String> {
    if pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(keys::STATIC_POD_FILENAME)) {
        return Ok(BTreeMap::new());
    }
    let namespace = PodKey::of(pod).namespace;
    let (home, name) = service_links::MASTER;
    let refused = |error| format!("services: {error}");
    let master = while_unavailable("reading the API server's service", || api.service(home, name)).await;
    let master = master.map_err(refused)?;
    let links = pod.spec.as_ref().is_none_or(service_links::wanted);
    let own = match links {
        true => while_unavailable("listing services", || api.services(&namespace)).await.map_err(refused)?,
        false => Vec::new(),
    };
    Ok(service_links::variables(master.as_ref(), &own))
}
