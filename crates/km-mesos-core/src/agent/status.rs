//! Task statuses made by the agent, and what the agent adds to those of executors.

use km_mesos_proto::v1::{
    self, TaskState, TaskStatus,
    task_status::{Reason, Source},
};

use super::Agent;

impl Agent {
    /// A status of the agent's own.
    pub(super) fn status(
        &mut self,
        task_id: &str,
        state: TaskState,
        reason: Option<Reason>,
        message: impl Into<String>,
    ) -> TaskStatus {
        self.status_from(Source::Agent, task_id, state, reason, message)
    }

    /// A status of the agent's own, or of one of its built-in executors.
    pub(super) fn status_from(
        &mut self,
        source: Source,
        task_id: &str,
        state: TaskState,
        reason: Option<Reason>,
        message: impl Into<String>,
    ) -> TaskStatus {
        let message = message.into();
        TaskStatus {
            task_id: v1::TaskId { value: task_id.to_owned() },
            state: state.into(),
            source: Some(source.into()),
            reason: reason.map(Into::into),
            message: (!message.is_empty()).then_some(message),
            timestamp: Some(self.now.as_secs_f64()),
            uuid: Some(self.uuid().to_vec()),
            ..Default::default()
        }
    }

    /// Adds what every update of an agent carries: agent, executor, container and its address.
    pub(super) fn complete_status(&self, framework: &str, executor: &str, status: &mut TaskStatus) {
        status.agent_id.get_or_insert_with(|| self.agent_id());
        // An executor's own statuses stay as they are.
        if status.source != Some(Source::Executor.into()) {
            status.executor_id.get_or_insert_with(|| v1::ExecutorId { value: executor.to_owned() });
        }
        status.timestamp.get_or_insert(self.now.as_secs_f64());
        // The agent ends a task when its container is no more: there is nothing to tell of that.
        if status.source == Some(Source::Agent.into()) && super::updates::is_terminal(status.state()) {
            return;
        }
        // Nor of a task that is over: its executor's word of it comes too late.
        let Some(task) = self.task(framework, &status.task_id.value) else { return };
        let process = task.process.as_ref().map(|process| &process.container);
        let container = process.or(self.executor(framework, executor).map(|executor| &executor.container));
        let Some(container) = container else { return };
        let known = status.container_status.get_or_insert_default();
        known.container_id.get_or_insert_with(|| v1::ContainerId { value: container.clone(), parent: None });
        if known.network_infos.is_empty() {
            let address = v1::network_info::IpAddress { protocol: None, ip_address: Some(self.config.ip.clone()) };
            known.network_infos.push(v1::NetworkInfo { ip_addresses: vec![address], ..Default::default() });
        }
    }
}
