//! The Mesos statuses of a task.

use k8s_openapi::api::core::v1::PodStatus;
use km_mesos_proto::v1::{self, TaskState, task_status::Source};
use serde_json::json;

use crate::{api::PodKey, messages};

/// The data of STARTING and RUNNING: the pod's full name and its status, by which a restarted scheduler finds the pod.
pub fn pod_status_result(key: &PodKey, status: &PodStatus) -> Vec<u8> {
    let metadata = json!({"name": key.full_name(), "selfLink": "/podstatusresult", "creationTimestamp": null});
    json!({"metadata": metadata, "status": status}).to_string().into_bytes()
}

fn status(task: &str, state: TaskState, message: &str) -> v1::TaskStatus {
    v1::TaskStatus {
        task_id: v1::TaskId::from(task),
        state: state.into(),
        message: Some(message.to_owned()),
        source: Some(Source::Executor.into()),
        ..Default::default()
    }
}

pub fn starting(task: &str, key: &PodKey) -> v1::TaskStatus {
    let data = pod_status_result(key, &PodStatus::default());
    v1::TaskStatus { data: Some(data), ..status(task, TaskState::TaskStarting, messages::CREATE_BINDING_SUCCESS) }
}

pub fn running(task: &str, key: &PodKey, pod: &PodStatus) -> v1::TaskStatus {
    let message = format!("{}{}", messages::POD_RUNNING_PREFIX, key.full_name());
    v1::TaskStatus { data: Some(pod_status_result(key, pod)), ..status(task, TaskState::TaskRunning, &message) }
}

pub fn finished(task: &str) -> v1::TaskStatus {
    status(task, TaskState::TaskFinished, "pod-succeeded")
}

pub fn failed(task: &str, message: &str) -> v1::TaskStatus {
    status(task, TaskState::TaskFailed, message)
}

pub fn killed(task: &str, message: &str) -> v1::TaskStatus {
    status(task, TaskState::TaskKilled, message)
}

pub fn lost(task: &str, message: &str) -> v1::TaskStatus {
    status(task, TaskState::TaskLost, message)
}
