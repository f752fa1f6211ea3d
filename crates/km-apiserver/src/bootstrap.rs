//! What is there before anyone creates something: namespaces, and the service that is this server.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    failure::Failure,
    registry::{Kind, by_storage},
    server::Server,
    verbs::{
        create::new_object,
        modify::{Modification, Part},
    },
};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes what is missing, and points service default/kubernetes at `advertised`.
pub async fn run(server: &Server, advertised: SocketAddr) -> anyhow::Result<()> {
    for name in NAMESPACES {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        ensure(server, "namespaces", None, namespace, false).await?;
    }
    for name in NAMESPACES {
        ensure(server, "serviceaccounts", Some(name), service_account(), false).await?;
    }
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "kubernetes", "labels": labels },
        "spec": { "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": advertised.port() }] },
    });
    ensure(server, "services", Some("default"), service, true).await?;
    let port = json!({ "name": "https", "port": advertised.port(), "protocol": "TCP" });
    let address = advertised.ip().to_string();
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": { "name": "kubernetes", "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } },
        "subsets": [{ "addresses": [{ "ip": address }], "ports": [port] }],
    });
    ensure(server, "endpoints", Some("default"), endpoints, true).await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "kubernetes", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": if advertised.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [port],
    });
    ensure(server, "discovery.k8s.io/endpointslices", Some("default"), slice, true).await
}

/// The account that pods of a namespace have.
fn service_account() -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } })
}

/// Creates an object that is not there; one that is there is brought up to date if `update` says so.
async fn ensure(
    server: &Server,
    storage: &str,
    namespace: Option<&str>,
    object: Value,
    update: bool,
) -> anyhow::Result<()> {
    let kind: &'static Kind = by_storage(storage).ok_or_else(|| anyhow::anyhow!("{storage} is not served"))?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let explain = |failure: Failure| anyhow::anyhow!("cannot make {storage} {name}: {}", failure.status()["message"]);
    let key = kind.key(namespace, &name);
    if server.store.get(&key).is_none() {
        new_object(server, kind, namespace, object, false).await.map_err(explain)?;
    } else if update {
        let modification = Modification { server, kind, key, part: Part::Whole, dry_run: false };
        let change = |old: &Value| {
            let mut new = old.clone();
            for (field, value) in object.as_object().into_iter().flatten() {
                match field.as_str() {
                    "metadata" => {}
                    // What the server allocated for the service stays.
                    "spec" => {
                        for (field, value) in value.as_object().into_iter().flatten() {
                            new["spec"][field] = value.clone();
                        }
                    }
                    _ => new[field] = value.clone(),
                }
            }
            Ok(new)
        };
        modification.apply(change).await.map_err(explain)?;
    }
    Ok(())
}
