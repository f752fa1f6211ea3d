//! `TaskInfo`: what Mesos is told to launch.

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1;

use crate::{Task, discovery::discovery_info, payload::launched_pod};

/// What goes into a task info besides the task.
pub struct TaskParts<'a> {
    pub task: &'a Task,
    pub pod: &'a Pod,
    pub executor: &'a v1::ExecutorInfo,
    /// Whether to tell service discovery (`--mesos-generate-task-discovery`).
    pub discovery: bool,
}

/// Builds the task info; its data is the annotated pod as JSON.
pub fn task_info(parts: &TaskParts<'_>) -> Result<v1::TaskInfo, serde_json::Error> {
    let task = parts.task;
    let pod = launched_pod(parts.pod.clone(), task);
    let discovery = parts.discovery.then(|| discovery_info(&pod, &task.ports));
    Ok(v1::TaskInfo {
        name: task.pod.mesos_name(),
        task_id: v1::TaskId { value: task.id.clone() },
        agent_id: v1::AgentId { value: task.agent_id.clone() },
        resources: task.resources.clone(),
        executor: Some(parts.executor.clone()),
        data: Some(serde_json::to_vec(&pod)?),
        discovery,
        ..v1::TaskInfo::default()
    })
}
