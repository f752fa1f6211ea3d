//! A framework as the agent knows it: it exists while it has executors or tasks here.

use std::collections::BTreeMap;

use km_mesos_proto::v1::{self, framework_info::capability};
use serde::{Deserialize, Serialize};

use super::{Action, Agent, executor::Executor, paths, task::Task};
use crate::link::codec;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Framework {
    #[serde(with = "codec::proto")]
    pub info: v1::FrameworkInfo,
    /// Being removed: its executors are ending, its updates go nowhere.
    pub terminating: bool,
    #[serde(skip)]
    pub executors: BTreeMap<String, Executor>,
    /// Tasks that run, or whose updates are not all acknowledged.
    #[serde(skip)]
    pub tasks: BTreeMap<String, Task>,
}

impl Framework {
    pub fn new(info: v1::FrameworkInfo) -> Self {
        Self { info, terminating: false, executors: BTreeMap::new(), tasks: BTreeMap::new() }
    }

    pub fn id(&self) -> v1::FrameworkId {
        self.info.id.clone().unwrap_or_default()
    }

    /// Whether it outlives a restart of the agent.
    pub fn checkpoint(&self) -> bool {
        self.info.checkpoint()
    }

    pub fn is_capable(&self, capability: capability::Type) -> bool {
        self.info.capabilities.iter().any(|has| has.r#type() == capability)
    }

    /// The state of a task that was never started here: LOST for a framework that knows no better.
    pub fn dropped(&self) -> v1::TaskState {
        if self.is_capable(capability::Type::PartitionAware) {
            v1::TaskState::TaskDropped
        } else {
            v1::TaskState::TaskLost
        }
    }

    /// The state of a task that ran here and is no more, for reasons unknown.
    pub fn gone(&self) -> v1::TaskState {
        if self.is_capable(capability::Type::PartitionAware) {
            v1::TaskState::TaskGone
        } else {
            v1::TaskState::TaskLost
        }
    }
}

impl Agent {
    /// Takes in a framework's newest description. Whether it is checkpointed cannot change.
    pub(super) fn learn_framework(&mut self, info: v1::FrameworkInfo) -> Option<String> {
        let id = info.id.as_ref()?.value.clone();
        match self.frameworks.get_mut(&id) {
            Some(known) if known.info == info => return Some(id),
            Some(known) => {
                let checkpoint = known.info.checkpoint;
                known.info = v1::FrameworkInfo { checkpoint, ..info };
            }
            None => {
                self.frameworks.insert(id.clone(), Framework::new(info));
            }
        }
        self.save_framework(&id);
        Some(id)
    }

    pub(super) fn save_framework(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get(id).filter(|framework| framework.checkpoint()) else { return };
        let content = record(framework);
        self.act(Action::Write { path: paths::framework(id), content });
    }

    /// Forgets the framework when nothing of it is left.
    pub(super) fn forget_framework_when_done(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        if framework.terminating && framework.executors.is_empty() {
            for task in std::mem::take(&mut framework.tasks).into_values() {
                let task = task.killed_with_framework();
                self.cancel_task_timers(id, &task.info.task_id.value);
                self.completed.add_task(id, task);
            }
        }
        let Some(framework) = self.frameworks.get(id) else { return };
        if !framework.executors.is_empty() || !framework.tasks.is_empty() {
            return;
        }
        if framework.checkpoint() {
            self.act(Action::Remove { path: paths::framework_directory(id) });
        }
        if let Some(framework) = self.frameworks.remove(id) {
            self.completed.add_framework(framework.info);
        }
    }
}

/// A checkpoint's content.
pub(super) fn record(value: &impl Serialize) -> Vec<u8> {
    // Serialising fails only for maps with keys that are no text, and there are none.
    serde_json::to_vec(value).unwrap_or_default()
}
