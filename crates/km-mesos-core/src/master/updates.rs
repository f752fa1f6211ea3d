//! Task statuses on their way from agents to frameworks, and acknowledgements on their way back.

use km_mesos_proto::{
    resources::Resources,
    v1::{
        self, TaskState,
        scheduler::{self, call, event},
    },
};

use super::{
    Master, calls,
    task::{state_of, terminal},
    validation,
};
use crate::link::MasterMessage;

impl Master {
    /// Sends a status to a framework if it is connected; one with a uuid comes again from the agent otherwise.
    pub(super) fn send_update(&mut self, framework: &str, status: v1::TaskStatus) {
        let event = scheduler::Event { update: Some(event::Update { status }), ..Default::default() };
        self.tell_framework(framework, event::Type::Update, event);
    }

    /// A status from an agent. Of an unknown task it is forwarded but changes nothing (M207).
    pub(super) fn agent_update(&mut self, agent: &str, framework: &str, mut status: v1::TaskStatus, latest: TaskState) {
        self.counters.count("messages_status_update");
        if !self.frameworks.contains_key(framework) {
            self.counters.count("invalid_status_updates");
            tracing::debug!(framework, agent, "status of a task of an unknown framework: dropped");
            return;
        }
        self.counters.count("valid_status_updates");
        status.agent_id.get_or_insert_with(|| v1::AgentId { value: agent.to_owned() });
        let latest = if terminal(latest) && terminal(state_of(status.state)) { state_of(status.state) } else { latest };
        self.send_update(framework, status.clone());
        let id = status.task_id.value.clone();
        let Some(task) = self.frameworks.get_mut(framework).and_then(|found| found.tasks.get_mut(&id)) else { return };
        if task.info.agent_id.value != agent {
            tracing::warn!(framework, agent, task = id, "status from an agent that does not run the task");
            return;
        }
        let repeated = task.info.status_update_uuid.is_some() && task.info.status_update_uuid == status.uuid;
        let ended = task.note(&status, latest);
        let state = task.state();
        let released = ended.then(|| std::mem::take(&mut task.resources));
        if !repeated {
            self.counters.count_status(&status);
            self.task_updated_event(framework, &status, state);
        }
        if let Some(released) = released {
            self.release(framework, agent, &released);
        }
    }

    /// Gives back what a task or an executor held.
    pub(super) fn release(&mut self, framework: &str, agent_id: &str, resources: &Resources) {
        if let Some(agent) = self.agents.get_mut(agent_id)
            && let Some(used) = agent.used.get_mut(framework)
        {
            *used -= resources.clone();
            if used.is_empty() {
                agent.used.remove(framework);
            }
        }
        self.allocator.recover(self.now, framework, agent_id, resources, None);
    }

    /// The framework has seen a status. The acknowledgement of a terminal one removes the task.
    pub(super) fn acknowledge(&mut self, framework: &str, acknowledge: call::Acknowledge) {
        let (agent_id, task_id) = (acknowledge.agent_id.value, acknowledge.task_id);
        if !self.agents.get(&agent_id).is_some_and(super::agent::Agent::connected) {
            // The agent sends the status again when it is back, so the framework acknowledges it again.
            self.counters.count("invalid_status_update_acknowledgements");
            tracing::debug!(framework, agent = agent_id, "acknowledgement for an agent that is not connected: dropped");
            return;
        }
        self.counters.count("valid_status_update_acknowledgements");
        let task = self.frameworks.get(framework).and_then(|found| found.tasks.get(&task_id.value));
        let last = task.is_some_and(|task| {
            task.info.status_update_uuid.as_deref() == Some(acknowledge.uuid.as_slice())
                && task.info.status_update_state.is_some_and(|state| terminal(state_of(state)))
        });
        if last {
            self.complete_task(framework, &task_id.value);
        }
        let framework_id = calls::framework_id(framework);
        self.tell_agent(&agent_id, MasterMessage::Acknowledge { framework_id, task_id, uuid: acknowledge.uuid });
        self.check_drains();
    }

    /// Moves a task from the live ones to the completed ones.
    pub(super) fn complete_task(&mut self, framework_id: &str, id: &str) {
        let limit = self.config.max_completed_tasks_per_framework;
        let Some(task) = self.detach_task(framework_id, id) else { return };
        if let Some(framework) = self.frameworks.get_mut(framework_id) {
            framework.complete(task, limit);
        }
    }

    /// Takes a task off the books of its framework and agent; gives back what it still holds.
    pub(super) fn detach_task(&mut self, framework_id: &str, id: &str) -> Option<v1::Task> {
        let task = self.frameworks.get_mut(framework_id)?.tasks.remove(id)?;
        let agent_id = task.info.agent_id.value.clone();
        if let Some(agent) = self.agents.get_mut(&agent_id) {
            let key = (framework_id.to_owned(), id.to_owned());
            agent.tasks.remove(&key);
            agent.killed.remove(&key);
        }
        if !task.terminal() {
            self.release(framework_id, &agent_id, &task.resources);
        }
        Some(task.info)
    }

    /// An executor ended: its resources come back and the framework learns it.
    pub(super) fn executor_exited(&mut self, agent: &str, framework: &str, executor_id: v1::ExecutorId, status: i32) {
        self.counters.count("messages_exited_executor");
        self.forget_executor(agent, framework, &executor_id.value);
        let failure = event::Failure {
            agent_id: Some(v1::AgentId { value: agent.to_owned() }),
            executor_id: Some(executor_id),
            status: Some(status),
        };
        let event = scheduler::Event { failure: Some(failure), ..Default::default() };
        self.tell_framework(framework, event::Type::Failure, event);
    }

    pub(super) fn forget_executor(&mut self, agent_id: &str, framework: &str, executor: &str) {
        let Some(executors) = self.agents.get_mut(agent_id).and_then(|agent| agent.executors.get_mut(framework)) else {
            return;
        };
        let Some(gone) = executors.remove(executor) else { return };
        if executors.is_empty()
            && let Some(agent) = self.agents.get_mut(agent_id)
        {
            agent.executors.remove(framework);
        }
        self.release(framework, agent_id, &validation::resource::read(&gone.resources));
    }
}
