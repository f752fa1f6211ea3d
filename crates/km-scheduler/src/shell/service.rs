//! The Service `default/k8sm-scheduler`, by which others find the leading scheduler's HTTP port.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{identity::within, status::Status};

const NAME: &str = "k8sm-scheduler";
const NAMESPACE: &str = "default";
/// The port of the Service, whatever ours is.
const PORT: u16 = 10251;
/// Pause between two looks.
const INTERVAL: Duration = Duration::from_secs(10);

/// Keeps the Service and its endpoints as they should be while the scheduler is subscribed. Never ends.
pub async fn publish(client: Client, status: &Status, served: SocketAddr, cluster_ip: Option<IpAddr>) {
    let Some(address) = reachable(served.ip()) else {
        tracing::info!(%served, "the Service {NAME} is not published: nobody else can reach that address");
        return std::future::pending().await;
    };
    loop {
        if status.is_subscribed()
            && let Err(error) = ensure(&client, SocketAddr::new(address, served.port()), cluster_ip).await
        {
            tracing::warn!(%error, "the Service {NAME} can't be published yet");
        }
        let pause = if status.is_subscribed() { INTERVAL } else { Duration::from_millis(500) };
        tokio::time::sleep(pause).await;
    }
}

async fn ensure(client: &Client, address: SocketAddr, cluster_ip: Option<IpAddr>) -> Result<(), kube::Error> {
    let (service, endpoints, slice) = objects(address, cluster_ip);
    let part = ["labels", "spec", "ports", "subsets", "endpoints"];
    apply::<Service>(client, service, &part).await?;
    apply::<Endpoints>(client, endpoints, &part).await?;
    apply::<EndpointSlice>(client, slice, &part).await
}

/// The Service, its Endpoints as the original made them, and the slice that proxies read today.
fn objects(address: SocketAddr, cluster_ip: Option<IpAddr>) -> (Value, Value, Value) {
    let labels = json!({ "provider": "k8sm", "component": "scheduler" });
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME, "labels": labels },
        "spec": { "ports": [{ "port": PORT, "protocol": "TCP" }], "sessionAffinity": "None" },
    });
    if let Some(ip) = cluster_ip {
        service["spec"]["clusterIP"] = json!(ip.to_string());
    }
    let port = json!([{ "port": address.port(), "protocol": "TCP" }]);
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": NAME, "labels": labels },
        "subsets": [{ "addresses": [{ "ip": address.ip().to_string() }], "ports": port }],
    });
    let family = if address.is_ipv6() { "IPv6" } else { "IPv4" };
    let mut labels = labels;
    labels["kubernetes.io/service-name"] = json!(NAME);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "name": NAME, "labels": labels },
        "addressType": family,
        "endpoints": [{ "addresses": [address.ip().to_string()], "conditions": { "ready": true } }],
        "ports": [{ "port": address.port(), "protocol": "TCP" }],
    });
    (service, endpoints, slice)
}

/// Creates an object, or patches it when it is there and lacks something.
async fn apply<K>(client: &Client, wanted: Value, parts: &[&str]) -> Result<(), kube::Error>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let objects: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    let object: K = serde_json::from_value(wanted.clone()).map_err(kube::Error::SerdeError)?;
    let Some(found) = within(objects.get_opt(NAME)).await? else {
        return match within(objects.create(&PostParams::default(), &object)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(drop),
        };
    };
    let found = serde_json::to_value(&found).map_err(kube::Error::SerdeError)?;
    if contains(&found["metadata"]["labels"], &wanted["metadata"]["labels"])
        && parts.iter().all(|part| contains(&found[part], &wanted[part]))
    {
        return Ok(());
    }
    tracing::info!(kind = wanted["kind"].as_str(), "{NAME} is brought in line");
    within(objects.patch(NAME, &PatchParams::default(), &Patch::Merge(wanted))).await.map(drop)
}

/// Whether everything wanted is there; what else is there are the API server's defaults.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (_, Value::Null) => true,
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| contains(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}

/// An address under which other machines reach ours: `LIBPROCESS_IP` if set, else where we listen, else that of the
/// default route. None when we listen on loopback only.
fn reachable(listens: IpAddr) -> Option<IpAddr> {
    let told = std::env::var("LIBPROCESS_IP").ok().and_then(|text| text.parse().ok());
    let usable = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
    if listens.is_loopback() {
        return None;
    }
    told.filter(usable).or_else(|| Some(listens).filter(usable)).or_else(|| {
        // Nothing is sent: connecting only chooses the route.
        let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
        socket.connect(("192.0.2.1", 9)).ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(usable)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objects_lead_to_the_port() {
        let (service, endpoints, slice) = objects(([10, 0, 0, 5], 31000).into(), Some([10, 10, 10, 9].into()));
        assert_eq!(service["spec"]["clusterIP"], "10.10.10.9");
        assert_eq!(service["spec"]["ports"][0]["port"], 10251);
        assert_eq!(service["spec"].get("selector"), None);
        assert_eq!(service["metadata"]["labels"], json!({ "provider": "k8sm", "component": "scheduler" }));
        let subset = json!([{ "addresses": [{ "ip": "10.0.0.5" }], "ports": [{ "port": 31000, "protocol": "TCP" }] }]);
        assert_eq!(endpoints["subsets"], subset);
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "k8sm-scheduler");
        assert_eq!(slice["endpoints"][0]["addresses"][0], "10.0.0.5");
        assert_eq!(objects(([10, 0, 0, 5], 1).into(), None).0["spec"].get("clusterIP"), None);
    }

    #[test]
    fn only_what_is_missing_is_written() {
        let table = [
            (json!({ "a": 1, "b": [{ "c": 2, "d": 3 }] }), json!({ "b": [{ "c": 2 }] }), true),
            (json!({ "a": 1 }), json!({ "a": 2 }), false),
            (json!({ "a": [1, 2] }), json!({ "a": [1] }), false),
            (json!({}), json!({ "a": 1 }), false),
            (json!(null), json!(null), true),
        ];
        for (found, wanted, expected) in table {
            assert_eq!(contains(&found, &wanted), expected, "{found} {wanted}");
        }
    }

    #[test]
    fn a_loopback_address_is_nobodys() {
        assert_eq!(reachable([127, 0, 0, 1].into()), None);
        assert_eq!(reachable([10, 0, 0, 7].into()), Some([10, 0, 0, 7].into()));
    }
}
