//! RECONCILE: what the master knows of tasks, asked for by name or all at once.

use km_mesos_proto::v1::{
    self, TaskState,
    scheduler::call,
    task_status::{Reason, Source},
};

use super::{
    Master,
    event::{seconds, time_info},
    task::{Task, master_status, terminal},
};

impl Master {
    /// Answers an empty list with every task that is not over, and a named task with the best that is known.
    pub(super) fn reconcile(&mut self, framework: &str, asked: Vec<call::reconcile::Task>) {
        self.counters.count("messages_reconcile_tasks");
        let answers = if asked.is_empty() { self.implicit(framework) } else { self.explicit(framework, asked) };
        for status in answers {
            self.send_update(framework, status);
        }
    }

    fn implicit(&self, framework: &str) -> Vec<v1::TaskStatus> {
        let tasks = self.frameworks.get(framework).into_iter().flat_map(|found| found.tasks.values());
        tasks.map(|task| self.latest(task)).collect()
    }

    fn explicit(&self, framework: &str, asked: Vec<call::reconcile::Task>) -> Vec<v1::TaskStatus> {
        asked.into_iter().filter_map(|one| self.explain(framework, one)).collect()
    }

    /// The answer for one named task; none while an agent that may know it is still to come back.
    fn explain(&self, framework: &str, asked: call::reconcile::Task) -> Option<v1::TaskStatus> {
        let found = self.frameworks.get(framework)?;
        if let Some(task) = found.tasks.get(&asked.task_id.value) {
            return Some(self.latest(task));
        }
        let unreachable = found.unreachable_tasks.get(&asked.task_id.value);
        let agent_id = asked.agent_id.or_else(|| unreachable.map(|task| task.agent_id.clone()));
        let answer = |aware, message: &str| {
            let state = found.lost_state(aware);
            let reason = Reason::Reconciliation;
            master_status(&asked.task_id, agent_id.as_ref(), state, reason, message, self.now)
        };
        let Some(id) = agent_id.as_ref().map(|id| id.value.as_str()) else {
            // Any agent that is not back yet may run it.
            let known = self.recovered.is_empty();
            return known.then(|| answer(TaskState::TaskUnknown, "Reconciliation: Task is unknown"));
        };
        if self.recovered.contains_key(id) {
            return None;
        }
        if self.agents.contains_key(id) {
            return Some(answer(TaskState::TaskGone, "Reconciliation: Task is unknown to the agent"));
        }
        if let Some((_, since)) = self.unreachable.get(id) {
            let mut status = answer(TaskState::TaskUnreachable, "Reconciliation: Task is unreachable");
            status.unreachable_time = Some(time_info(*since));
            return Some(status);
        }
        if self.gone.contains_key(id) {
            return Some(answer(TaskState::TaskGoneByOperator, "Reconciliation: Task is gone"));
        }
        Some(answer(TaskState::TaskUnknown, "Reconciliation: Task is unknown"))
    }

    /// The newest state the framework was told of.
    fn latest(&self, task: &Task) -> v1::TaskStatus {
        self.retold(task, Reason::Reconciliation, "Reconciliation: Latest task state")
    }

    /// A status of the master's own with what the task's newest status carried.
    pub(super) fn retold(&self, task: &Task, reason: Reason, message: &str) -> v1::TaskStatus {
        let info = &task.info;
        let newest = info.statuses.last();
        v1::TaskStatus {
            task_id: info.task_id.clone(),
            state: task.forwarded_state() as i32,
            message: Some(message.to_owned()),
            agent_id: Some(info.agent_id.clone()),
            timestamp: Some(seconds(self.now)),
            executor_id: info.executor_id.clone(),
            healthy: newest.and_then(|status| status.healthy).filter(|_| !terminal(task.forwarded_state())),
            source: Some(Source::Master as i32),
            reason: Some(reason as i32),
            container_status: info.statuses.iter().rev().find_map(|status| status.container_status.clone()),
            check_status: newest.and_then(|status| status.check_status),
            ..v1::TaskStatus::default()
        }
    }
}
