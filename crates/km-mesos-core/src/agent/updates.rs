//! The status update manager: updates of a task go to the framework in order, one at a time, each until acknowledged.
//!
//! An update is checkpointed before the executor hears that it arrived and before it is forwarded, so none is lost over
//! a restart. It is sent again after 10 s, doubling up to 10 min, and at every new registration with a master.

use std::time::Duration;

use km_mesos_proto::v1::{TaskState, TaskStatus, task_status::Source};
use serde::{Deserialize, Serialize};

use super::{Agent, task::Task, timers::Timer};
use crate::link::{AgentMessage, codec};

pub(super) const FIRST_RETRY: Duration = Duration::from_secs(10);
pub(super) const LAST_RETRY: Duration = Duration::from_secs(10 * 60);
/// How many acknowledged updates are remembered to know a late duplicate.
const REMEMBERED: usize = 32;

/// The updates of one task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Updates {
    /// Not yet acknowledged, oldest first. The first is the one in flight.
    #[serde(with = "codec::protos")]
    pending: Vec<TaskStatus>,
    /// The newest acknowledged ones.
    #[serde(with = "codec::protos")]
    acknowledged: Vec<TaskStatus>,
    #[serde(skip)]
    retry: Option<Duration>,
}

impl Updates {
    /// The update in flight, or the last one that was.
    pub fn last_forwarded(&self) -> Option<&TaskStatus> {
        self.pending.first().or(self.acknowledged.last())
    }

    /// The states that the task went through, as far as they are remembered.
    pub fn history(&self) -> impl Iterator<Item = &TaskStatus> {
        self.acknowledged.iter().chain(&self.pending)
    }

    /// Whether the task's executor has told something of it.
    pub fn has_word_of_executor(&self) -> bool {
        let all = self.pending.iter().chain(&self.acknowledged);
        all.into_iter().any(|status| status.source() == Source::Executor)
    }

    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes in an update; false when it is a duplicate, or comes after a terminal one that is not acknowledged.
    fn push(&mut self, status: TaskStatus) -> bool {
        let known = self.pending.iter().chain(&self.acknowledged).any(|old| old.uuid == status.uuid);
        if known || self.pending.iter().any(|old| is_terminal(old.state())) {
            return false;
        }
        self.pending.push(status);
        true
    }

    /// Takes out the update in flight if that is the one acknowledged.
    fn acknowledge(&mut self, uuid: &[u8]) -> Option<TaskState> {
        let front = self.pending.first().filter(|front| front.uuid.as_deref() == Some(uuid))?;
        let state = front.state();
        // What is kept serves to know it again, so the payload need not be.
        let done = TaskStatus { data: None, ..self.pending.remove(0) };
        self.acknowledged.push(done);
        if self.acknowledged.len() > REMEMBERED {
            self.acknowledged.remove(0);
        }
        self.retry = None;
        Some(state)
    }

    fn clear(&mut self) {
        self.pending.clear();
    }
}

/// Whether a task in that state has ended for good.
pub(super) fn is_terminal(state: TaskState) -> bool {
    use TaskState::*;
    matches!(
        state,
        TaskFinished | TaskFailed | TaskKilled | TaskError | TaskLost | TaskDropped | TaskGone | TaskGoneByOperator
    )
}

impl Agent {
    /// Takes in an update of a task: remembers, checkpoints and forwards it.
    pub(super) fn update(&mut self, framework_id: &str, executor_id: &str, mut status: TaskStatus) {
        self.complete_status(framework_id, executor_id, &mut status);
        self.colour_by_drain(framework_id, &mut status);
        let agent_id = self.agent_id();
        let task_id = status.task_id.value.clone();
        let Some(framework) = self.frameworks.get_mut(framework_id).filter(|framework| !framework.terminating) else {
            return;
        };
        let task = framework
            .tasks
            .entry(task_id.clone())
            .or_insert_with(|| Task::foreign(status.task_id.clone(), agent_id, executor_id.to_owned()));
        if !task.updates.push(status.clone()) {
            return;
        }
        task.state = status.state();
        let over = task.is_terminal();
        let first = task.updates.pending.len() == 1;
        task.statuses.push_back(TaskStatus { data: None, ..status });
        if task.statuses.len() > REMEMBERED {
            task.statuses.pop_front();
        }
        if over {
            self.unlink_volumes(framework_id, &task_id);
        }
        self.save_task(framework_id, &task_id);
        if first {
            self.forward(framework_id, &task_id);
        }
    }

    /// Sends the update in flight, if there is one and a master to send it to.
    fn forward(&mut self, framework_id: &str, task_id: &str) {
        if !self.link.is_registered() {
            return;
        }
        let now = self.now;
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let id = framework.id();
        let Some(task) = framework.tasks.get_mut(task_id) else { return };
        let Some(status) = task.updates.pending.first().cloned() else { return };
        let latest_state = task.state;
        let retry = task.updates.retry.map_or(FIRST_RETRY, |last| (last * 2).min(LAST_RETRY));
        task.updates.retry = Some(retry);
        self.timers.set(Timer::Retry(framework_id.to_owned(), task_id.to_owned()), now + retry);
        self.send(AgentMessage::Update { framework_id: id, status, latest_state });
    }

    pub(super) fn retry(&mut self, framework_id: &str, task_id: &str) {
        self.forward(framework_id, task_id);
    }

    /// Starts over with all that is in flight: there is a new master to tell.
    pub(super) fn forward_everything(&mut self) {
        for (framework, task) in self.tasks_with_updates() {
            if let Some(task) = self.task_mut(&framework, &task) {
                task.updates.retry = None;
            }
            self.forward(&framework, &task);
        }
        self.tell_all_operations();
    }

    fn tasks_with_updates(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (framework_id, framework) in &self.frameworks {
            let waiting = framework.tasks.iter().filter(|(_, task)| !task.updates.is_settled());
            found.extend(waiting.map(|(task, _)| (framework_id.clone(), task.clone())));
        }
        found
    }

    /// The framework acknowledged an update. An acknowledgement that does not fit the one in flight is ignored.
    pub(super) fn acknowledge(&mut self, framework_id: &str, task_id: &str, uuid: &[u8]) {
        let Some(task) = self.task_mut(framework_id, task_id) else { return };
        let Some(state) = task.updates.acknowledge(uuid) else { return };
        let over = is_terminal(state) || task.foreign && task.updates.is_settled();
        self.timers.cancel(&Timer::Retry(framework_id.to_owned(), task_id.to_owned()));
        if over {
            self.forget_task(framework_id, task_id);
            return;
        }
        self.save_task(framework_id, task_id);
        self.forward(framework_id, task_id);
    }

    /// Drops what a framework was not told, because it is no more.
    pub(super) fn drop_updates(&mut self, framework_id: &str) {
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let mut dropped = Vec::new();
        for (id, task) in &mut framework.tasks {
            task.updates.clear();
            dropped.push(Timer::Retry(framework_id.to_owned(), id.clone()));
        }
        for timer in dropped {
            self.timers.cancel(&timer);
        }
    }
}
