//! The hand-shake of a launch: the executor binds the pod to this node, with the task's annotations.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;

use crate::{
    api::{Api, ApiError, PodKey},
    messages,
    retry::while_unavailable,
};

/// Why a pod is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindFailure {
    /// It is gone, being deleted, or its name belongs to another pod by now.
    Gone(String),
    /// It cannot be bound. `message` is one of [`messages`]; `detail` says what happened.
    Failed { message: &'static str, detail: String },
}

/// Binds the pod of a task; returns the pod as the API server has it.
///
/// # Errors
/// See [`BindFailure`]. An unavailable server is asked again until `patience` is over (zero: for ever).
pub async fn bind(api: &dyn Api, pod: &Pod, node: &str, patience: Duration) -> Result<Pod, BindFailure> {
    let work = attempt(api, pod, node);
    if patience.is_zero() {
        return work.await;
    }
    match tokio::time::timeout(patience, work).await {
        Ok(result) => result,
        Err(_) => Err(BindFailure::Failed {
            message: messages::CREATE_BINDING_FAILURE,
            detail: format!("the API server did not bind the pod within {} s", patience.as_secs()),
        }),
    }
}

async fn attempt(api: &dyn Api, pod: &Pod, node: &str) -> Result<Pod, BindFailure> {
    let key = PodKey::of(pod);
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let current = current(api, &key).await?;
    let bound = match judge(&current, node, &annotations)? {
        Standing::Bound => current,
        Standing::Unbound => {
            let result = while_unavailable("binding a pod", || api.bind(&key, node, &annotations)).await;
            let after = self::current(api, &key).await?;
            match (judge(&after, node, &annotations)?, result) {
                (Standing::Bound, _) => after,
                (Standing::Unbound, result) => {
                    let detail = result.err().map_or("the binding had no effect".to_owned(), |error| error.to_string());
                    return Err(BindFailure::Failed { message: messages::CREATE_BINDING_FAILURE, detail });
                }
            }
        }
    };
    let known = bound.metadata.annotations.clone().unwrap_or_default();
    if annotations.iter().all(|(name, value)| known.get(name) == Some(value)) {
        return Ok(bound);
    }
    // A server that ignores a Binding's annotations, or a pod that was made for this node.
    match while_unavailable("annotating a pod", || api.annotate(&key, &annotations)).await {
        Ok(()) => self::current(api, &key).await,
        Err(error) => {
            Err(BindFailure::Failed { message: messages::ANNOTATION_UPDATE_FAILURE, detail: error.to_string() })
        }
    }
}

async fn current(api: &dyn Api, key: &PodKey) -> Result<Pod, BindFailure> {
    let failed =
        |error: ApiError| BindFailure::Failed { message: messages::CREATE_BINDING_FAILURE, detail: error.to_string() };
    let found = while_unavailable("reading a pod", || api.get_pod(key)).await.map_err(failed)?;
    let Some(pod) = found else {
        return Err(BindFailure::Gone("the pod is gone".into()));
    };
    if pod.metadata.uid.as_deref() != Some(&key.uid) {
        return Err(BindFailure::Gone("the pod's name belongs to another pod by now".into()));
    }
    Ok(pod)
}

enum Standing {
    Unbound,
    Bound,
}

/// Whether the pod may be run for this task on this node.
fn judge(pod: &Pod, node: &str, annotations: &BTreeMap<String, String>) -> Result<Standing, BindFailure> {
    let failed = |detail: String| Err(BindFailure::Failed { message: messages::CREATE_BINDING_FAILURE, detail });
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(BindFailure::Gone("the pod is being deleted".into()));
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        return failed(format!("the pod has ended already (phase {phase})"));
    }
    let bound_to = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    if !bound_to.is_empty() && bound_to != node {
        return failed(format!("the pod is bound to node {bound_to}"));
    }
    let task = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(keys::TASK_ID));
    match task {
        Some(other) if !bound_to.is_empty() && Some(other) != annotations.get(keys::TASK_ID) => {
            failed(format!("the pod belongs to task {other}"))
        }
        _ if bound_to.is_empty() => Ok(Standing::Unbound),
        _ => Ok(Standing::Bound),
    }
}
