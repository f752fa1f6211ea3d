//! A task as the agent knows it: from its launch until its terminal update is acknowledged.

use std::collections::VecDeque;

use km_mesos_proto::v1::{self, TaskState};
use serde::{Deserialize, Serialize};

use super::{
    Action, Agent,
    framework::record,
    paths,
    timers::Timer,
    updates::{Updates, is_terminal},
};
use crate::link::codec;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    #[serde(with = "codec::proto")]
    pub info: v1::TaskInfo,
    pub executor_id: String,
    /// The newest state; the framework may not know it yet.
    #[serde(with = "codec::task_state")]
    pub state: TaskState,
    /// The tasks launched together with it, itself included; empty for a task alone.
    pub group: Vec<String>,
    /// The process, when the agent runs the task itself.
    pub process: Option<Process>,
    /// Was never launched here: an update of it came by. It is gone when that is acknowledged.
    pub foreign: bool,
    pub updates: Updates,
    /// The executor was sent the task (or, for built-in ones, the process was asked for).
    #[serde(skip)]
    pub delivered: bool,
    #[serde(skip)]
    pub statuses: VecDeque<v1::TaskStatus>,
}

/// A task's process under a built-in executor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Process {
    pub container: String,
    /// It runs.
    pub started: bool,
    /// It is being ended, and why.
    pub ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ending {
    Killed,
    OutOfTime,
}

impl Task {
    pub fn new(info: v1::TaskInfo, executor_id: String, group: Vec<String>) -> Self {
        Self {
            info,
            executor_id,
            state: TaskState::TaskStaging,
            group,
            process: None,
            foreign: false,
            updates: Updates::default(),
            delivered: false,
            statuses: VecDeque::new(),
        }
    }

    /// A stand-in for a task that is not known here.
    pub fn foreign(task_id: v1::TaskId, agent_id: v1::AgentId, executor_id: String) -> Self {
        let info = v1::TaskInfo { task_id, agent_id, ..Default::default() };
        Self { foreign: true, delivered: true, ..Self::new(info, executor_id, Vec::new()) }
    }

    pub fn is_terminal(&self) -> bool {
        is_terminal(self.state)
    }

    /// The task as it counts when its framework was removed under it.
    pub fn killed_with_framework(mut self) -> Self {
        if !self.is_terminal() {
            self.state = TaskState::TaskKilled;
        }
        self
    }

    /// The task as the master and operators see it.
    pub fn to_proto(&self, framework_id: &str) -> v1::Task {
        let custom = self.info.executor.is_some();
        let forwarded = self.updates.last_forwarded();
        v1::Task {
            name: self.info.name.clone(),
            task_id: self.info.task_id.clone(),
            framework_id: v1::FrameworkId { value: framework_id.to_owned() },
            executor_id: custom.then(|| v1::ExecutorId { value: self.executor_id.clone() }),
            agent_id: self.info.agent_id.clone(),
            state: self.state.into(),
            resources: self.info.resources.clone(),
            statuses: self.statuses.iter().cloned().collect(),
            status_update_state: forwarded.map(|status| status.state),
            status_update_uuid: forwarded.and_then(|status| status.uuid.clone()),
            labels: self.info.labels.clone(),
            discovery: self.info.discovery.clone(),
            container: self.info.container.clone(),
            user: self.info.command.as_ref().and_then(|command| command.user.clone()),
            health_check: self.info.health_check.clone(),
            kill_policy: self.info.kill_policy,
            limits: self.info.limits.clone(),
        }
    }
}

impl Agent {
    pub(super) fn task(&self, framework: &str, task: &str) -> Option<&Task> {
        self.frameworks.get(framework)?.tasks.get(task)
    }

    pub(super) fn task_mut(&mut self, framework: &str, task: &str) -> Option<&mut Task> {
        self.frameworks.get_mut(framework)?.tasks.get_mut(task)
    }

    pub(super) fn save_task(&mut self, framework_id: &str, task_id: &str) {
        let Some(framework) = self.frameworks.get(framework_id).filter(|framework| framework.checkpoint()) else {
            return;
        };
        let Some(task) = framework.tasks.get(task_id) else { return };
        let content = record(task);
        self.act(Action::Write { path: paths::task(framework_id, task_id), content });
    }

    /// The ids of an executor's tasks that have not ended.
    pub(super) fn live_tasks(&self, framework: &str, executor: &str) -> Vec<String> {
        let Some(framework) = self.frameworks.get(framework) else { return Vec::new() };
        let of_executor = framework.tasks.iter().filter(|(_, task)| task.executor_id == executor);
        of_executor.filter(|(_, task)| !task.is_terminal() && !task.foreign).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn cancel_task_timers(&mut self, framework: &str, task: &str) {
        let name = || (framework.to_owned(), task.to_owned());
        for timer in [Timer::Retry, Timer::KillGrace, Timer::Completion] {
            let (framework, task) = name();
            self.timers.cancel(&timer(framework, task));
        }
    }

    /// Forgets a task whose updates are all acknowledged.
    pub(super) fn forget_task(&mut self, framework_id: &str, task_id: &str) {
        self.cancel_task_timers(framework_id, task_id);
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let checkpoint = framework.checkpoint();
        let Some(task) = framework.tasks.remove(task_id) else { return };
        if checkpoint {
            self.act(Action::Remove { path: paths::task_directory(framework_id, task_id) });
        }
        if !task.foreign {
            self.completed.add_task(framework_id, task);
        }
        self.forget_framework_when_done(framework_id);
    }
}
