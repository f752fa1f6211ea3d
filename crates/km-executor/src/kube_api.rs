//! [`Api`] over a real API server.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        coordination::v1::Lease,
        core::v1::{
            Binding, ConfigMap, Event, Node, NodeStatus, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
            PodStatus, Secret, Service, ServiceAccount,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api as Resource, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

use crate::api::{Api, ApiError, PodChange, PodKey};

/// No call of the executor may take longer.
const DEADLINE: Duration = Duration::from_secs(15);
const LEASES: &str = "kube-node-lease";

pub struct KubeApi {
    client: Client,
}

impl KubeApi {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn pods(&self, namespace: &str) -> Resource<Pod> {
        Resource::namespaced(self.client.clone(), namespace)
    }
}

/// Awaits a call within the deadline and sorts its error.
async fn call<T>(future: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
    match tokio::time::timeout(DEADLINE, future).await {
        Err(_) => Err(ApiError::Unavailable(format!("no answer within {} s", DEADLINE.as_secs()))),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            404 => ApiError::NotFound,
            409 => ApiError::Conflict(status.message.clone()),
            // 401 and 403 pass when credentials or roles arrive.
            401 | 403 | 408 | 429 | 500..=599 => ApiError::Unavailable(status.message.clone()),
            _ => ApiError::Refused(status.message.clone()),
        }),
        Ok(Err(error)) => Err(ApiError::Unavailable(error.to_string())),
    }
}

fn found<T>(result: Result<Option<T>, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Err(ApiError::NotFound) => Ok(None),
        other => other,
    }
}

/// Conditions are merged by their type: those that are over must be deleted by name.
fn status_patch(status: &PodStatus) -> Result<Value, ApiError> {
    let mut patch = serde_json::to_value(status).map_err(|error| ApiError::Refused(error.to_string()))?;
    if let Some(conditions) = patch["conditions"].as_array_mut() {
        for kind in km_pod::PASSING_CONDITIONS {
            if !conditions.iter().any(|condition| condition["type"] == kind) {
                conditions.push(json!({"$patch": "delete", "type": kind}));
            }
        }
    }
    Ok(patch)
}

#[async_trait]
impl Api for KubeApi {
    async fn get_pod(&self, key: &PodKey) -> Result<Option<Pod>, ApiError> {
        found(call(self.pods(&key.namespace).get_opt(&key.name)).await)
    }

    async fn create_pod(&self, pod: &Pod) -> Result<Pod, ApiError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        call(self.pods(namespace).create(&PostParams::default(), pod)).await
    }

    async fn bind(&self, key: &PodKey, node: &str, annotations: &BTreeMap<String, String>) -> Result<(), ApiError> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(key.uid.clone()),
                annotations: Some(annotations.clone()),
                ..Default::default()
            },
            target: ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Node".into()),
                name: Some(node.into()),
                ..Default::default()
            },
        };
        let pods = self.pods(&key.namespace);
        // The answer is a Status or the Binding, depending on the server: only its success matters.
        let answer: serde_json::Value =
            call(pods.create_subresource("binding", &key.name, &PostParams::default(), &binding)).await?;
        tracing::trace!(?answer, "bound");
        Ok(())
    }

    async fn annotate(&self, key: &PodKey, annotations: &BTreeMap<String, String>) -> Result<(), ApiError> {
        let patch = Patch::Merge(json!({"metadata": {"uid": key.uid, "annotations": annotations}}));
        call(self.pods(&key.namespace).patch_metadata(&key.name, &PatchParams::default(), &patch)).await.map(drop)
    }

    async fn set_status(&self, key: &PodKey, status: &PodStatus) -> Result<(), ApiError> {
        // The UID makes the server refuse when the name belongs to another pod by now.
        let patch = Patch::Strategic(json!({"metadata": {"uid": key.uid}, "status": status_patch(status)?}));
        call(self.pods(&key.namespace).patch_status(&key.name, &PatchParams::default(), &patch)).await.map(drop)
    }

    async fn delete_pod(&self, key: &PodKey) -> Result<(), ApiError> {
        let own = Preconditions { uid: Some(key.uid.clone()), resource_version: None };
        let options = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }.preconditions(own);
        call(self.pods(&key.namespace).delete(&key.name, &options)).await.map(drop)
    }

    fn watch_pods(&self, node: &str) -> BoxStream<'static, PodChange> {
        let pods: Resource<Pod> = Resource::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let mut listed: Vec<String> = Vec::new();
        let stream = watcher(pods, config).default_backoff().filter_map(move |event| {
            let change = match event {
                Err(error) => {
                    tracing::warn!(%error, "watching pods: trying again");
                    None
                }
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    None
                }
                Ok(watcher::Event::InitApply(pod)) => {
                    listed.extend(pod.metadata.uid.clone());
                    Some(PodChange::Applied(Box::new(pod)))
                }
                Ok(watcher::Event::InitDone) => Some(PodChange::Complete(std::mem::take(&mut listed))),
                Ok(watcher::Event::Apply(pod)) => Some(PodChange::Applied(Box::new(pod))),
                Ok(watcher::Event::Delete(pod)) => pod.metadata.uid.map(PodChange::Gone),
            };
            std::future::ready(change)
        });
        stream.boxed()
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, ApiError> {
        found(call(Resource::namespaced(self.client.clone(), namespace).get_opt(name)).await)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, ApiError> {
        found(call(Resource::namespaced(self.client.clone(), namespace).get_opt(name)).await)
    }

    async fn service(&self, namespace: &str, name: &str) -> Result<Option<Service>, ApiError> {
        found(call(Resource::namespaced(self.client.clone(), namespace).get_opt(name)).await)
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Service>, ApiError> {
        let services: Resource<Service> = Resource::namespaced(self.client.clone(), namespace);
        Ok(call(services.list(&ListParams::default())).await?.items)
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<PersistentVolumeClaim>, ApiError> {
        found(call(Resource::namespaced(self.client.clone(), namespace).get_opt(name)).await)
    }

    async fn persistent_volume(&self, name: &str) -> Result<Option<PersistentVolume>, ApiError> {
        found(call(Resource::all(self.client.clone()).get_opt(name)).await)
    }

    async fn token(
        &self,
        key: &PodKey,
        account: &str,
        audience: Option<&str>,
        seconds: i64,
    ) -> Result<String, ApiError> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(audience.map(str::to_owned).into_iter().collect()),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: Some(key.name.clone()),
                    uid: Some(key.uid.clone()),
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let accounts: Resource<ServiceAccount> = Resource::namespaced(self.client.clone(), &key.namespace);
        let answer: TokenRequest =
            call(accounts.create_subresource("token", account, &PostParams::default(), &request)).await?;
        let token = answer.status.and_then(|status| status.token);
        token.ok_or_else(|| ApiError::Refused("the server issued no token".into()))
    }

    async fn record(&self, event: &Event) -> Result<(), ApiError> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        let events: Resource<Event> = Resource::namespaced(self.client.clone(), namespace);
        if event.count.is_some_and(|count| count > 1) {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let patch = Patch::Merge(json!({"count": event.count, "lastTimestamp": event.last_timestamp}));
            match call(events.patch(name, &PatchParams::default(), &patch)).await {
                // It has expired: a new one.
                Err(ApiError::NotFound) => {}
                other => return other.map(drop),
            }
        }
        call(events.create(&PostParams::default(), event)).await.map(drop)
    }

    async fn ensure_node(&self, node: &Node) -> Result<Node, ApiError> {
        let nodes: Resource<Node> = Resource::all(self.client.clone());
        let name = node.metadata.name.clone().unwrap_or_default();
        match call(nodes.create(&PostParams::default(), node)).await {
            Err(ApiError::Conflict(_)) => {
                let meta = &node.metadata;
                let patch = Patch::Merge(json!({"metadata": {"labels": meta.labels, "annotations": meta.annotations}}));
                call(nodes.patch(&name, &PatchParams::default(), &patch)).await
            }
            other => other,
        }
    }

    async fn node_uid(&self, name: &str) -> Result<Option<String>, ApiError> {
        let nodes: Resource<Node> = Resource::all(self.client.clone());
        let node = found(call(nodes.get_metadata_opt(name)).await)?;
        Ok(node.and_then(|node| node.metadata.uid))
    }

    async fn set_node_status(&self, name: &str, status: &NodeStatus) -> Result<(), ApiError> {
        let nodes: Resource<Node> = Resource::all(self.client.clone());
        let patch = Patch::Strategic(json!({ "status": status }));
        call(nodes.patch_status(name, &PatchParams::default(), &patch)).await.map(drop)
    }

    async fn renew_lease(&self, node: &Node, seconds: i32) -> Result<(), ApiError> {
        let leases: Resource<Lease> = Resource::namespaced(self.client.clone(), LEASES);
        let lease = crate::node::lease(node, seconds);
        let name = lease.metadata.name.clone().unwrap_or_default();
        let patch = Patch::Merge(json!({ "metadata": {"ownerReferences": lease.metadata.owner_references},
                                         "spec": lease.spec }));
        match call(leases.patch(&name, &PatchParams::default(), &patch)).await {
            Err(ApiError::NotFound) => call(leases.create(&PostParams::default(), &lease)).await.map(drop),
            other => other.map(drop),
        }
    }
}
