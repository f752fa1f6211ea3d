//! The API server, as far as the benchmarks speak to it.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context;
use k8s_openapi::{
    api::core::v1::{Binding, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config,
    api::{ApiResource, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{NotUsed, Object},
};
use serde::{Deserialize, Serialize};

/// A pod as far as the benchmarks look at it: measuring is to cost as little as possible on the same machine.
pub type BarePod = Object<Place, NotUsed>;

/// Where a pod is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Place {
    #[serde(rename = "nodeName")]
    pub node_name: Option<String>,
}

/// What [`BarePod`] is to the API server.
pub fn bare_pods() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// A client with the rights of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let name = kubeconfig.display();
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("can't read kubeconfig {name}"))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.with_context(|| format!("kubeconfig {name} is unusable"))?).context("can't make a client")
}

/// Binds a pod, with annotations. The UID is a precondition.
pub async fn bind(
    client: &Client,
    pod: &ObjectMeta,
    node: &str,
    annotations: BTreeMap<String, String>,
) -> Result<(), kube::Error> {
    let name = pod.name.clone().unwrap_or_default();
    let namespace = pod.namespace.clone().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace),
            uid: pod.uid.clone(),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    // The answer is a Status or the Binding, depending on the server: only its success matters.
    let answer: serde_json::Value = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
    tracing::trace!(?answer, "bound");
    Ok(())
}
