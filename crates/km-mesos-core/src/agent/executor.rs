//! An executor as the agent knows it, from its launch to the end of its container.

use std::{collections::VecDeque, time::Duration};

use km_mesos_proto::v1::{self, executor::Event, task_status::Reason};
use serde::{Deserialize, Serialize};

use super::{Action, Agent, framework::record, paths};
use crate::link::codec;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Executor {
    #[serde(with = "codec::proto")]
    pub info: v1::ExecutorInfo,
    /// The container it runs in. A built-in executor has none of its own: its tasks have.
    pub container: String,
    pub kind: Kind,
    #[serde(skip)]
    pub state: State,
    /// Its process was started.
    #[serde(skip)]
    pub launched: bool,
    /// Its stream, while that is open.
    #[serde(skip)]
    pub connection: Option<u64>,
    /// What it was not sent yet, because it has not subscribed.
    #[serde(skip)]
    pub queue: VecDeque<Delivery>,
    /// Kills that came while it was away.
    #[serde(skip)]
    pub kills: Vec<v1::executor::event::Kill>,
    /// It was sent a task once. After a restart of the agent: it has told something of a task.
    #[serde(skip)]
    pub had_work: bool,
    /// What its tasks become when it ends, if the agent ended it for a reason.
    #[serde(skip)]
    pub verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// A process that speaks the executor API.
    Custom,
    /// The agent itself, for one task with a `command`.
    Command,
    /// The agent itself, for task groups of an executor of type DEFAULT.
    Default,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Launched, or recovered, and not yet subscribed.
    #[default]
    Registering,
    Running,
    /// Told to shut down.
    Terminating,
}

/// One event's worth of tasks.
#[derive(Clone, Debug)]
pub(super) enum Delivery {
    Task(String),
    Group(Vec<String>),
}

impl Delivery {
    pub fn tasks(&self) -> &[String] {
        match self {
            Self::Task(task) => std::slice::from_ref(task),
            Self::Group(tasks) => tasks,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub state: v1::TaskState,
    pub reason: Reason,
    pub message: String,
}

impl Executor {
    pub fn new(info: v1::ExecutorInfo, container: String, kind: Kind) -> Self {
        Self {
            info,
            container,
            kind,
            state: State::Registering,
            launched: false,
            connection: None,
            queue: VecDeque::new(),
            kills: Vec::new(),
            had_work: false,
            verdict: None,
        }
    }

    pub fn is_built_in(&self) -> bool {
        self.kind != Kind::Custom
    }

    /// How long it may take to end. Nanoseconds below zero count as none.
    pub fn shutdown_grace(&self, default: Duration) -> Duration {
        self.info.shutdown_grace_period.map_or(default, |period| nanoseconds(period.nanoseconds))
    }
}

/// A Mesos duration; below zero counts as none.
pub(super) fn nanoseconds(value: i64) -> Duration {
    Duration::from_nanos(u64::try_from(value).unwrap_or(0))
}

impl Agent {
    pub(super) fn executor(&self, framework: &str, executor: &str) -> Option<&Executor> {
        self.frameworks.get(framework)?.executors.get(executor)
    }

    pub(super) fn executor_mut(&mut self, framework: &str, executor: &str) -> Option<&mut Executor> {
        self.frameworks.get_mut(framework)?.executors.get_mut(executor)
    }

    pub(super) fn save_executor(&mut self, framework_id: &str, executor_id: &str) {
        let Some(framework) = self.frameworks.get(framework_id).filter(|framework| framework.checkpoint()) else {
            return;
        };
        let Some(executor) = framework.executors.get(executor_id) else { return };
        let content = record(executor);
        self.act(Action::Write { path: paths::executor(framework_id, executor_id), content });
    }

    /// Sends an event if the executor's stream is open; says whether it was.
    pub(super) fn tell(&mut self, framework: &str, executor: &str, event: Event) -> bool {
        let Some(connection) = self.executor(framework, executor).and_then(|executor| executor.connection) else {
            return false;
        };
        self.act(Action::SendEvent { connection, event: Box::new(event) });
        true
    }
}
