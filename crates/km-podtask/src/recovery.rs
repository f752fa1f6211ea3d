//! Recovery: what a pod in the API server says about its task.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use km_kube::{keys, pod};
use thiserror::Error;

use crate::task::{Flags, PodKey, State, Task};

/// What a pod's annotations say.
#[derive(Clone, Debug, PartialEq)]
pub enum Recovered {
    /// The pod was never launched by us, or is none of our business any more.
    Nothing,
    /// It was bound by one of our executors.
    Task(Box<Task>),
}

/// The pod says that it was launched, but not enough of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("pod {pod} has annotation {present} but not {missing}")]
pub struct RecoveryError {
    pub pod: PodKey,
    pub present: &'static str,
    pub missing: &'static str,
}

/// Rebuilds the task of a bound pod. A pod with other annotations only is simply unscheduled.
pub fn recover(now: Duration, pod: &Pod) -> Result<Recovered, RecoveryError> {
    let Some(annotations) = &pod.metadata.annotations else { return Ok(Recovered::Nothing) };
    if pod::is_mirror(pod) || pod::is_terminal(pod) {
        return Ok(Recovered::Nothing);
    }
    let value = |key: &str| annotations.get(key).filter(|value| !value.is_empty()).cloned();
    let Some(id) = value(keys::TASK_ID) else { return Ok(Recovered::Nothing) };
    let key = PodKey::of(&pod.metadata);
    let required = |name: &'static str| {
        value(name).ok_or_else(|| RecoveryError { pod: key.clone(), present: keys::TASK_ID, missing: name })
    };
    let task = Task {
        id,
        pod: key.clone(),
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
        agent_id: required(keys::SLAVE_ID)?,
        hostname: required(keys::BINDING_HOST)?,
        executor_id: value(keys::EXECUTOR_ID).unwrap_or_default(),
        offer_id: value(keys::OFFER_ID).unwrap_or_default(),
        resources: Vec::new(),
        ports: Vec::new(),
        state: State::Pending,
        flags: Flags { launched: true, bound: true, deleted: false, unreachable: false },
        created: now,
        launched: Some(now),
        bound: Some(now),
        updated: None,
    };
    Ok(Recovered::Task(Box::new(task)))
}
