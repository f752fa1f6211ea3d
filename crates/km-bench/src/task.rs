//! Task statuses.

use km_mesos_proto::v1;

/// A status that an executor reports.
pub fn status(task: &v1::TaskId, agent: Option<&v1::AgentId>, state: v1::TaskState) -> v1::TaskStatus {
    v1::TaskStatus {
        task_id: task.clone(),
        state: state.into(),
        source: Some(v1::task_status::Source::Executor.into()),
        agent_id: agent.cloned(),
        uuid: Some(uuid::Uuid::new_v4().as_bytes().to_vec()),
        ..v1::TaskStatus::default()
    }
}
