//! Carries out the core's operations on the API server.

mod claims;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event as KubeEvent, EventSource, Node, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use km_kube::pod::is_terminal;
use km_podtask::PodKey;
use kube::{
    Api as KubeApi, Client,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::identity::{Identity, within};
use crate::core::{Action, ApiFailure, ApiReply, Event, EventKind, PodListing};

/// Operations under way at once.
const PARALLEL: usize = 32;
/// Events about pods that may wait for being written. They go out one after the other: they are for people, and must
/// not keep bindings from the API server when thousands of pods start at once.
const NOTES: usize = 10_000;
/// Source of the events, as in every cluster.
const COMPONENT: &str = "default-scheduler";
/// How often a write that met another one is tried.
const CONFLICTS: usize = 5;
/// Page size of complete lists.
const PAGE: u32 = 500;

type Outcome = Result<ApiReply, kube::Error>;

/// The API server, for the driver.
#[derive(Clone)]
pub struct Api {
    client: Client,
    identity: Arc<Identity>,
    events: mpsc::Sender<Event>,
    slots: Arc<Semaphore>,
    notes: mpsc::Sender<Action>,
    /// Whether events are being lost because too many wait.
    losing: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Api {
    /// After `stop` nothing is written any more: an operation on its way is given up.
    pub fn new(client: Client, identity: Arc<Identity>, events: mpsc::Sender<Event>, stop: CancellationToken) -> Self {
        let (notes, waiting) = mpsc::channel(NOTES);
        let (slots, losing) = (Arc::new(Semaphore::new(PARALLEL)), Arc::default());
        let api = Self { client, identity, events, slots, notes, losing, stop };
        tokio::spawn(api.clone().write_notes(waiting));
        api
    }

    async fn write_notes(self, mut waiting: mpsc::Receiver<Action>) {
        while let Some(Some(note)) = self.stop.run_until_cancelled(waiting.recv()).await {
            self.losing.store(false, Ordering::Relaxed);
            if let Action::EmitEvent { pod, uid, kind, message } = note {
                self.stop.run_until_cancelled(self.emit(&pod, uid, kind, message)).await;
            }
        }
    }

    /// Starts an operation; its answer comes as an event.
    pub fn start(&self, action: Action) {
        if matches!(action, Action::EmitEvent { .. }) {
            if self.notes.try_send(action).is_err() && !self.losing.swap(true, Ordering::Relaxed) {
                tracing::warn!(waiting = NOTES, "events about pods are lost: the API server takes them too slowly");
            }
            return;
        }
        let api = self.clone();
        tokio::spawn(async move { api.stop.run_until_cancelled(api.run(action)).await });
    }

    async fn run(&self, action: Action) {
        // The semaphore is never closed.
        let Ok(_slot) = self.slots.acquire().await else { return };
        let op = action.operation();
        let reply = match self.perform(action).await {
            Ok(reply) => reply,
            Err(error) => ApiReply::Failed(failure(&error)),
        };
        if let Some(op) = op {
            let _stopping = self.events.send(Event::Api { op, reply }).await;
        }
    }

    async fn perform(&self, action: Action) -> Outcome {
        match action {
            Action::CreateNode { node, .. } => self.create_node(&node).await,
            Action::PatchNode { name, patch, status, .. } => self.patch_node(&name, patch, status).await,
            Action::DeleteNode { name, .. } => {
                within(self.nodes().delete(&name, &DeleteParams::default())).await.map(|_| ApiReply::Done)
            }
            Action::PatchPodStatus { pod, uid, reason, message, .. } => {
                self.refuse_pod(&pod, &uid, &reason, &message).await
            }
            Action::NominatePod { pod, uid, node, .. } => self.nominate_pod(&pod, &uid, node).await,
            Action::PreemptPod { pod, uid, message, .. } => self.preempt_pod(&pod, uid, &message).await,
            Action::DeletePod { pod, uid, .. } => self.delete_pod(&pod, uid).await,
            Action::EvictPod { pod, uid, budgets, .. } => self.evict_pod(&pod, uid, budgets).await,
            Action::FetchPod { pod, uid, .. } => self.fetch_pod(&pod, &uid).await,
            Action::EndPod { pod, uid, phase, message, .. } => self.end_pod(&pod, &uid, phase, &message).await,
            Action::ReserveVolume { volume, version, claim, uid, .. } => {
                self.reserve_volume(&volume, &version, &claim, &uid).await
            }
            Action::SelectNode { claim, version, node, .. } => self.select_node(&claim, &version, &node).await,
            Action::ListPods { .. } => self.list_pods().await,
            other => {
                tracing::error!(?other, "no operation of the API server");
                Ok(ApiReply::Done)
            }
        }
    }

    fn nodes(&self) -> KubeApi<Node> {
        KubeApi::all(self.client.clone())
    }

    fn pods(&self, key: &PodKey) -> KubeApi<Pod> {
        KubeApi::namespaced(self.client.clone(), &key.namespace)
    }

    async fn create_node(&self, node: &Node) -> Outcome {
        match within(self.nodes().create(&PostParams::default(), node)).await {
            // It is there: the watch shows it, and the core brings it in line.
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(ApiReply::Done),
            result => {
                let written = result?.status.and_then(|status| status.conditions);
                if written.is_some_and(|conditions| !conditions.is_empty()) {
                    return Ok(ApiReply::Done);
                }
            }
        }
        // This server takes a status by its own path only.
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.patch_node(name, json!({ "status": node.status }), true).await
    }

    async fn patch_node(&self, name: &str, mut patch: Value, status: bool) -> Outcome {
        let nodes = self.nodes();
        let parameters = PatchParams::default();
        if !status {
            return within(nodes.patch(name, &parameters, &Patch::Merge(patch))).await.map(|_| ApiReply::Done);
        }
        stamp(patch.pointer_mut("/status/conditions"));
        within(nodes.patch_status(name, &parameters, &Patch::Merge(patch))).await.map(|_| ApiReply::Done)
    }

    async fn refuse_pod(&self, pod: &PodKey, uid: &str, reason: &str, message: &str) -> Outcome {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": Time(Timestamp::now()),
        });
        let patch = json!({ "metadata": { "uid": uid }, "status": { "conditions": [condition] } });
        let pods = self.pods(pod);
        within(pods.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(patch)))
            .await
            .map(|_| ApiReply::Done)
    }

    async fn nominate_pod(&self, pod: &PodKey, uid: &str, node: Option<String>) -> Outcome {
        let patch = json!({ "metadata": { "uid": uid }, "status": { "nominatedNodeName": node } });
        within(self.pods(pod).patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(patch)))
            .await
            .map(|_| ApiReply::Done)
    }

    /// Says why before it deletes, as the pod may be looked at while it ends.
    async fn preempt_pod(&self, pod: &PodKey, uid: String, message: &str) -> Outcome {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "lastTransitionTime": Time(Timestamp::now()),
        });
        let patch = json!({ "metadata": { "uid": uid }, "status": { "conditions": [condition] } });
        let pods = self.pods(pod);
        within(pods.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(patch))).await?;
        self.evict_pod(pod, uid, false).await
    }

    async fn delete_pod(&self, pod: &PodKey, uid: String) -> Outcome {
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        within(self.pods(pod).delete(&pod.name, &parameters)).await.map(|_| ApiReply::Done)
    }

    async fn evict_pod(&self, pod: &PodKey, uid: String, budgets: bool) -> Outcome {
        let delete_options = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let pods = self.pods(pod);
        if !budgets {
            return within(pods.delete(&pod.name, &delete_options)).await.map(|_| ApiReply::Done);
        }
        let parameters = EvictParams { delete_options: Some(delete_options), ..EvictParams::default() };
        match within(pods.evict(&pod.name, &parameters)).await {
            Err(kube::Error::Api(status)) if status.code == 429 => {
                Ok(ApiReply::Failed(ApiFailure::Refused(status.message.clone())))
            }
            result => result.map(|_| ApiReply::Done),
        }
    }

    async fn fetch_pod(&self, pod: &PodKey, uid: &str) -> Outcome {
        let found = within(self.pods(pod).get_opt(&pod.name)).await?;
        Ok(ApiReply::Pod(found.filter(|pod| pod.metadata.uid.as_deref() == Some(uid)).map(Arc::new)))
    }

    /// Reads and writes under a resource version, so that a phase that is terminal is never changed.
    async fn end_pod(&self, key: &PodKey, uid: &str, phase: &str, message: &str) -> Outcome {
        for _ in 0..CONFLICTS {
            let ApiReply::Pod(Some(pod)) = self.fetch_pod(key, uid).await? else { return Ok(ApiReply::Done) };
            if is_terminal(&pod) {
                return Ok(ApiReply::Done);
            }
            let version = pod.metadata.resource_version.clone();
            let patch = json!({
                "metadata": { "uid": uid, "resourceVersion": version },
                "status": { "phase": phase, "message": message },
            });
            let pods = self.pods(key);
            match within(pods.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                result => return result.map(|_| ApiReply::Done),
            }
        }
        Ok(ApiReply::Failed(ApiFailure::Unavailable("the pod is being written by others".to_owned())))
    }

    async fn list_pods(&self) -> Outcome {
        let pods: KubeApi<Pod> = KubeApi::all(self.client.clone());
        let mut listing = PodListing { uids: Vec::new(), ours: self.identity.is_kept().await? };
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let page = within(pods.list_metadata(&parameters)).await?;
            listing.uids.extend(page.items.into_iter().filter_map(|pod| pod.metadata.uid));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(ApiReply::Pods(listing)),
            }
        }
    }

    async fn emit(&self, pod: &PodKey, uid: String, kind: EventKind, message: String) {
        let now = Timestamp::now();
        let event = KubeEvent {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", pod.name, now.as_nanosecond())),
                namespace: Some(pod.namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(pod.name.clone()),
                namespace: Some(pod.namespace.clone()),
                uid: Some(uid),
                ..ObjectReference::default()
            },
            reason: Some(kind.reason().to_owned()),
            type_: Some(kind.severity().to_owned()),
            message: Some(message),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..KubeEvent::default()
        };
        let events: KubeApi<KubeEvent> = KubeApi::namespaced(self.client.clone(), &pod.namespace);
        if let Err(error) = within(events.create(&PostParams::default(), &event)).await {
            tracing::warn!(%pod, %error, "an event was lost");
        }
    }
}

/// Gives conditions without a time the present one.
fn stamp(conditions: Option<&mut Value>) {
    let now = json!(Time(Timestamp::now()));
    for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
        if condition["type"] == "Ready" {
            condition["lastTransitionTime"] = now.clone();
            condition["lastHeartbeatTime"] = now.clone();
        }
    }
}

/// What a failure means for the operation. Missing rights may be granted, so they count as unavailable.
fn failure(error: &kube::Error) -> ApiFailure {
    match error {
        kube::Error::Api(status) => match status.code {
            404 | 409 | 410 => ApiFailure::Gone,
            400 | 405 | 406 | 413 | 415 | 422 => ApiFailure::Refused(status.message.clone()),
            _ => ApiFailure::Unavailable(status.message.clone()),
        },
        other => ApiFailure::Unavailable(other.to_string()),
    }
}
