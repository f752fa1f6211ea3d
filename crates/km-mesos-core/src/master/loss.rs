//! Agents that are lost: unreachable for now, removed, or gone for ever.

use std::time::Duration;

use km_mesos_proto::v1::{
    self, TaskState,
    scheduler::{self, event},
    task_status::Reason,
};

use super::{
    Master, RegisteredAgent,
    event::time_info,
    task::{master_status, remember_status, state_of, terminal},
};
use crate::link::MasterMessage;

impl Master {
    /// The agent does not answer: its tasks may still run, but nobody can tell.
    pub(super) fn mark_unreachable(&mut self, id: &str, why: &str) {
        self.counters.count("slave_unreachable_scheduled");
        self.counters.count("slave_unreachable_completed");
        self.counters.count("slave_removals_reason_unhealthy");
        let Some(agent) = self.agents.get(id) else { return };
        for (framework, task_id) in agent.tasks.clone() {
            self.lose_sight_of(&framework, &task_id, why);
        }
        self.lose_operations(id, v1::OperationState::OperationUnreachable, "Agent is unreachable");
        let Some(agent) = self.take_agent(id) else { return };
        self.remember_unreachable(id, Self::record_of(&agent));
        if let Some(connection) = agent.connection {
            self.close(connection);
        }
        tracing::warn!(agent = id, why, "agent is unreachable");
        self.tell_agent_lost(id);
    }

    pub(super) fn remember_unreachable(&mut self, id: &str, record: RegisteredAgent) {
        self.unreachable.insert(id.to_owned(), (record.info.clone(), self.now));
        if record.deactivated || record.drain.is_some() {
            self.unreachable_drains.insert(id.to_owned(), record);
        }
        self.persist_agent(id);
    }

    /// Forgets agents that are lost for too long, or the oldest when there are too many.
    pub(super) fn forget_long_lost(&mut self) {
        let (now, config) = (self.now, &self.config);
        let stale = |mut all: Vec<(Duration, String)>| -> Vec<String> {
            all.sort();
            let surplus = all.len().saturating_sub(config.registry_max_agent_count);
            let old = |since: Duration| now.saturating_sub(since) > config.registry_max_agent_age;
            let gone = all.into_iter().enumerate().filter(|(place, (since, _))| *place < surplus || old(*since));
            gone.map(|(_, (_, id))| id).collect()
        };
        let unreachable = stale(self.unreachable.iter().map(|(id, (_, since))| (*since, id.clone())).collect());
        let gone = stale(self.gone.iter().map(|(id, since)| (*since, id.clone())).collect());
        for id in unreachable {
            self.unreachable.remove(&id);
            self.unreachable_drains.remove(&id);
            self.persist_agent(&id);
        }
        for id in gone {
            self.gone.remove(&id);
            self.persist_agent(&id);
        }
    }

    fn lose_sight_of(&mut self, framework_id: &str, task_id: &str, why: &str) {
        let Some(mut task) = self.detach_unreleased(framework_id, task_id) else { return };
        let Some(framework) = self.frameworks.get(framework_id) else { return };
        if !terminal(state_of(task.state)) {
            let state = framework.lost_state(TaskState::TaskUnreachable);
            let mut status =
                master_status(&task.task_id, Some(&task.agent_id), state, Reason::AgentRemoved, why, self.now);
            status.executor_id = task.executor_id.clone();
            status.unreachable_time = Some(time_info(self.now));
            task.state = state as i32;
            remember_status(&mut task, &status);
            self.counters.count_status(&status);
            self.task_updated_event(framework_id, &status, state);
            self.send_update(framework_id, status);
        }
        if let Some(framework) = self.frameworks.get_mut(framework_id) {
            framework.unreachable_tasks.insert(task_id.to_owned(), task);
        }
    }

    /// The agent is gone: it said goodbye, its machine is down, or it came back as another.
    pub(super) fn remove_agent(&mut self, id: &str, reason: Reason, why: &str) {
        let Some(agent) = self.agents.get(id) else { return };
        let message = format!("Agent {} removed: {why}", agent.info.hostname);
        // Frameworks hear of tasks first, then of offers.
        for (framework, task_id) in agent.tasks.clone() {
            // Even frameworks that know of partitions are told that it is lost.
            self.end_task(&framework, &task_id, TaskState::TaskLost, reason, &message);
        }
        let Some(agent) = self.take_agent(id) else { return };
        if let Some(connection) = agent.connection {
            self.close(connection);
        }
        self.persist_agent(id);
        self.tell_agent_lost(id);
    }

    pub(super) fn agent_unregistered(&mut self, id: &str) {
        self.counters.count("messages_unregister_slave");
        self.counters.count("slave_removals_reason_unregistered");
        self.remove_agent(id, Reason::AgentRemoved, "the agent unregistered");
    }

    /// An operator gives the agent up for ever: should it come back, it must end all it runs.
    pub(super) fn mark_gone(&mut self, id: &str) {
        let message = "Agent has been marked gone".to_owned();
        self.gone.insert(id.to_owned(), self.now);
        self.recovered.remove(id);
        self.unreachable_drains.remove(id);
        if self.unreachable.remove(id).is_some() {
            self.unreachable_tasks_gone(id);
            self.persist_agent(id);
            return;
        }
        self.tell_agent(id, MasterMessage::Refused { message: message.clone() });
        for (framework, task_id) in self.agents.get(id).map(|agent| agent.tasks.clone()).unwrap_or_default() {
            let reason = Reason::AgentRemovedByOperator;
            self.end_task(&framework, &task_id, TaskState::TaskGoneByOperator, reason, &message);
        }
        self.lose_operations(id, v1::OperationState::OperationGoneByOperator, "Agent has been marked gone");
        let Some(agent) = self.take_agent(id) else {
            self.persist_agent(id);
            return;
        };
        if let Some(connection) = agent.connection {
            self.close(connection);
        }
        self.persist_agent(id);
        self.tell_agent_lost(id);
    }

    /// The tasks, by framework, that were last seen on an agent.
    pub(super) fn unreachable_on(&self, agent: &str) -> Vec<(String, String)> {
        let frameworks = self.frameworks.values();
        let here = frameworks.flat_map(|framework| {
            let here = framework.unreachable_tasks.values().filter(|task| task.agent_id.value == agent);
            here.map(|task| (framework.id.clone(), task.task_id.value.clone()))
        });
        here.collect()
    }

    /// The agent was unreachable when it was marked gone: its tasks now are over for certain (X117).
    fn unreachable_tasks_gone(&mut self, agent: &str) {
        for (framework_id, task_id) in self.unreachable_on(agent) {
            let Some(framework) = self.frameworks.get_mut(&framework_id) else { continue };
            let Some(task) = framework.unreachable_tasks.remove(&task_id) else { continue };
            let state = TaskState::TaskGoneByOperator;
            self.tell_end(&framework_id, task, state, Reason::AgentRemovedByOperator, "Agent has been marked gone");
        }
    }

    /// A checkpoint-less framework's executors end with the agent's process, so they are lost at once (M250).
    pub(super) fn lose_unchecked_frameworks(&mut self, id: &str) {
        let Some(agent) = self.agents.get(id) else { return };
        let unchecked = |framework: &str| {
            self.frameworks.get(framework).is_some_and(|found| !found.info.checkpoint.unwrap_or(false))
        };
        let tasks: Vec<_> = agent.tasks.iter().filter(|(framework, _)| unchecked(framework)).cloned().collect();
        let executors: Vec<(String, String)> = agent
            .executors
            .iter()
            .filter(|(framework, _)| unchecked(framework))
            .flat_map(|(framework, executors)| executors.keys().map(move |id| (framework.clone(), id.clone())))
            .collect();
        let message = format!("Agent {} disconnected", agent.info.hostname);
        for (framework, task) in tasks {
            self.end_task(&framework, &task, TaskState::TaskLost, Reason::AgentDisconnected, &message);
        }
        for (framework, executor) in executors {
            self.forget_executor(id, &framework, &executor);
        }
    }

    /// Ends a task whose agent can't: LOST, or `aware` for frameworks that know of partitions.
    fn end_task(&mut self, framework_id: &str, task_id: &str, aware: TaskState, reason: Reason, message: &str) {
        let Some(task) = self.detach_task(framework_id, task_id) else { return };
        self.tell_end(framework_id, task, aware, reason, message);
    }

    fn tell_end(&mut self, framework_id: &str, mut task: v1::Task, aware: TaskState, reason: Reason, message: &str) {
        let Some(framework) = self.frameworks.get(framework_id) else { return };
        let over = terminal(state_of(task.state)) && task.state != TaskState::TaskLost as i32;
        if !over {
            let state = framework.lost_state(aware);
            let mut status = master_status(&task.task_id, Some(&task.agent_id), state, reason, message, self.now);
            status.executor_id = task.executor_id.clone();
            task.state = state as i32;
            remember_status(&mut task, &status);
            self.counters.count_status(&status);
            self.task_updated_event(framework_id, &status, state);
            self.send_update(framework_id, status);
        }
        self.keep_completed(framework_id, task);
    }

    /// Takes an agent off the books: no offers, nothing in the allocator, out of the list.
    fn take_agent(&mut self, id: &str) -> Option<super::agent::Agent> {
        self.rescind_offers_of_agent(id);
        let agent = self.agents.get(id)?;
        let held = agent.used.clone();
        self.allocator.remove_agent(id, &held);
        let agent = self.agents.remove(id)?;
        self.hosts.remove(&agent.info.hostname, id);
        self.draining.remove(id);
        self.counters.count("slave_removals");
        Some(agent)
    }

    /// As `detach_task`, when the agent goes off the books with all that it holds.
    fn detach_unreleased(&mut self, framework: &str, task_id: &str) -> Option<v1::Task> {
        self.frameworks.get_mut(framework)?.tasks.remove(task_id).map(|task| task.info)
    }

    /// Tells every framework and operator that an agent is lost.
    pub(super) fn tell_agent_lost(&mut self, id: &str) {
        let agent_id = v1::AgentId { value: id.to_owned() };
        for framework in self.frameworks.keys().cloned().collect::<Vec<_>>() {
            let failure = event::Failure { agent_id: Some(agent_id.clone()), executor_id: None, status: None };
            let event = scheduler::Event { failure: Some(failure), ..Default::default() };
            self.tell_framework(&framework, event::Type::Failure, event);
        }
        self.agent_removed_event(agent_id);
    }
}
