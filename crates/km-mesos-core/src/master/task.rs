//! What the master knows about one task, and the states a task can be in.

use km_mesos_proto::{resources::Resources, v1};
use v1::{TaskState, task_status};

use super::validation;

/// A task that is not removed yet: it runs, or its last status is not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// `state` is the newest state known, `status_update_state` the newest that was forwarded to the framework.
    pub info: v1::Task,
    /// What it holds, allocated. Given back when its state becomes terminal.
    pub resources: Resources,
}

impl Task {
    /// A task as it is launched.
    pub fn launched(task: &v1::TaskInfo, framework: &v1::FrameworkInfo, executor: Option<&v1::ExecutorInfo>) -> Self {
        let command = task.command.as_ref().or_else(|| executor.and_then(|executor| executor.command.as_ref()));
        let info = v1::Task {
            name: task.name.clone(),
            task_id: task.task_id.clone(),
            framework_id: framework.id.clone().unwrap_or_default(),
            executor_id: executor.map(|executor| executor.executor_id.clone()),
            agent_id: task.agent_id.clone(),
            state: TaskState::TaskStaging as i32,
            resources: task.resources.clone(),
            statuses: Vec::new(),
            status_update_state: None,
            status_update_uuid: None,
            labels: task.labels.clone(),
            discovery: task.discovery.clone(),
            container: task.container.clone(),
            // Of the command or the executor only: that of the framework is not told.
            user: command.and_then(|command| command.user.clone()),
            health_check: task.health_check.clone(),
            kill_policy: task.kill_policy,
            limits: task.limits.clone(),
        };
        Self::known(info)
    }

    /// A task as an agent reports it.
    pub fn known(info: v1::Task) -> Self {
        Self { resources: validation::resource::read(&info.resources), info }
    }

    pub fn state(&self) -> TaskState {
        state_of(self.info.state)
    }

    /// The newest state the framework was told, or the newest known when it was told none.
    pub fn forwarded_state(&self) -> TaskState {
        self.info.status_update_state.map_or(self.state(), state_of)
    }

    pub fn terminal(&self) -> bool {
        terminal(self.state())
    }

    /// Notes a status that goes to the framework. Says whether the task became terminal by it.
    pub fn note(&mut self, status: &v1::TaskStatus, latest: TaskState) -> bool {
        let ended = !self.terminal() && terminal(latest);
        if !self.terminal() {
            self.info.state = latest as i32;
        }
        self.info.status_update_state = Some(status.state);
        self.info.status_update_uuid = status.uuid.clone();
        remember_status(&mut self.info, status);
        ended
    }
}

/// Appends a status to a task's history: without its data, and in place of an earlier one of the same state.
pub(super) fn remember_status(task: &mut v1::Task, status: &v1::TaskStatus) {
    if task.statuses.last().is_some_and(|last| last.state == status.state) {
        task.statuses.pop();
    }
    let mut kept = status.clone();
    kept.data = None;
    task.statuses.push(kept);
}

/// The state of a number on the wire; an unknown one is `TASK_UNKNOWN`.
pub(super) fn state_of(number: i32) -> TaskState {
    TaskState::try_from(number).unwrap_or(TaskState::TaskUnknown)
}

/// Whether a state is final. UNREACHABLE and UNKNOWN are not: such a task may come back.
pub fn terminal(state: TaskState) -> bool {
    use TaskState::*;
    matches!(
        state,
        TaskFinished | TaskFailed | TaskKilled | TaskError | TaskLost | TaskDropped | TaskGone | TaskGoneByOperator
    )
}

/// A status that the master makes up itself: it has no uuid, so it needs no acknowledgement.
pub(super) fn master_status(
    task_id: &v1::TaskId,
    agent_id: Option<&v1::AgentId>,
    state: TaskState,
    reason: task_status::Reason,
    message: impl Into<String>,
    now: std::time::Duration,
) -> v1::TaskStatus {
    v1::TaskStatus {
        task_id: task_id.clone(),
        state: state as i32,
        message: Some(message.into()),
        agent_id: agent_id.cloned(),
        timestamp: Some(super::event::seconds(now)),
        source: Some(task_status::Source::Master as i32),
        reason: Some(reason as i32),
        ..v1::TaskStatus::default()
    }
}
