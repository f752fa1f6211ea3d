//! All tasks, and the state machine that status updates drive.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use km_mesos_proto::v1::TaskState;
use thiserror::Error;

use crate::task::{PodKey, State, Task};

/// So many finished tasks are remembered; the oldest make room.
pub const FINISHED_HISTORY: usize = 1024;

/// Why a task can't be registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegistryError {
    #[error("task {0} is registered already")]
    DuplicateId(String),
    #[error("pod {0} has a task already")]
    DuplicatePod(PodKey),
}

/// What a status update did.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// The task after the update (as it was, when the update removed it); none when it is unknown.
    pub task: Option<Arc<Task>>,
    /// Its state before the update.
    pub before: Option<State>,
    /// Whether the update took it out of the registry.
    pub removed: bool,
    /// Whether it is the first word of the binding.
    pub newly_bound: bool,
}

/// Tasks by id and by pod.
#[derive(Default)]
pub struct Registry {
    tasks: BTreeMap<String, Arc<Task>>,
    by_pod: BTreeMap<PodKey, String>,
    /// Agents and ids of the tasks that didn't finish.
    by_agent: BTreeSet<(String, String)>,
    finished: VecDeque<String>,
    /// Pods whose tasks came, went or moved since somebody last asked.
    changed: BTreeSet<PodKey>,
}

impl Registry {
    pub fn register(&mut self, task: Task) -> Result<(), RegistryError> {
        if self.tasks.contains_key(&task.id) {
            return Err(RegistryError::DuplicateId(task.id));
        }
        if self.by_pod.contains_key(&task.pod) {
            return Err(RegistryError::DuplicatePod(task.pod));
        }
        self.changed.insert(task.pod.clone());
        self.by_pod.insert(task.pod.clone(), task.id.clone());
        if task.state != State::Finished {
            self.by_agent.insert((task.agent_id.clone(), task.id.clone()));
        }
        self.tasks.insert(task.id.clone(), Arc::new(task));
        Ok(())
    }

    /// Forgets a task. An unknown one is fine.
    pub fn unregister(&mut self, id: &str) -> Option<Task> {
        let task = self.tasks.remove(id)?;
        self.changed.insert(task.pod.clone());
        if self.by_pod.get(&task.pod).is_some_and(|current| current == id) {
            self.by_pod.remove(&task.pod);
        }
        self.by_agent.remove(&(task.agent_id.clone(), task.id.clone()));
        Some(Arc::unwrap_or_clone(task))
    }

    pub fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.get(id).map(Arc::as_ref)
    }

    /// Changes flags, times and place of a task. State changes only by [`Registry::update_status`].
    pub fn amend(&mut self, id: &str, change: impl FnOnce(&mut Task)) {
        if let Some(task) = self.tasks.get_mut(id) {
            let task = Arc::make_mut(task);
            let (state, agent, host) = (task.state, task.agent_id.clone(), task.hostname.clone());
            change(task);
            task.state = state;
            if (&task.agent_id, &task.hostname) != (&agent, &host) {
                self.changed.insert(task.pod.clone());
                if self.by_agent.remove(&(agent, task.id.clone())) {
                    self.by_agent.insert((task.agent_id.clone(), task.id.clone()));
                }
            }
        }
    }

    /// The live task of a pod.
    pub fn of_pod(&self, pod: &PodKey) -> Option<&Task> {
        self.by_pod.get(pod).and_then(|id| self.get(id))
    }

    /// The pods whose tasks came, went or moved since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<PodKey> {
        std::mem::take(&mut self.changed)
    }

    /// All tasks ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().map(Arc::as_ref)
    }

    /// All that didn't finish, ordered by id.
    pub fn live(&self) -> impl Iterator<Item = &Task> {
        self.iter().filter(|task| task.state != State::Finished)
    }

    /// The live tasks on one agent, ordered by id.
    pub fn of_agent<'a>(&'a self, agent: &'a str) -> impl Iterator<Item = &'a Task> {
        let from = self.by_agent.range((agent.to_owned(), String::new())..);
        from.take_while(move |(of, _)| of == agent).filter_map(|(_, id)| self.get(id))
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Applies a status update.
    ///
    /// | update | pending | running | finished |
    /// |---|---|---|---|
    /// | STAGING | – | – | – |
    /// | STARTING | bound | – | – |
    /// | RUNNING | running | – | – |
    /// | KILLING | – | – | – |
    /// | UNREACHABLE, UNKNOWN | unreachable | unreachable | – |
    /// | FINISHED | finished | finished | – |
    /// | FAILED, ERROR, KILLED, LOST, DROPPED, GONE, GONE_BY_OPERATOR | removed | removed | – |
    pub fn update_status(&mut self, now: Duration, id: &str, update: TaskState) -> Transition {
        let Some(known) = self.tasks.get_mut(id) else {
            return Transition { task: None, before: None, removed: false, newly_bound: false };
        };
        let before = known.state;
        let mut transition = Transition { task: None, before: Some(before), removed: false, newly_bound: false };
        if before == State::Finished {
            if !matches!(update, TaskState::TaskFinished) {
                tracing::warn!(task = id, ?update, "status update for a finished task");
            }
            transition.task = Some(Arc::clone(known));
            return transition;
        }
        let task = Arc::make_mut(known);
        task.updated = Some(now);
        match update {
            TaskState::TaskStaging | TaskState::TaskKilling => {}
            TaskState::TaskStarting | TaskState::TaskRunning => {
                task.flags.unreachable = false;
                // RUNNING implies the binding, whose own update may have come before this scheduler.
                transition.newly_bound = !task.flags.bound;
                task.flags.bound = true;
                task.bound.get_or_insert(now);
                if update == TaskState::TaskRunning {
                    task.state = State::Running;
                }
            }
            TaskState::TaskUnreachable | TaskState::TaskUnknown => task.flags.unreachable = true,
            TaskState::TaskFinished => task.state = State::Finished,
            TaskState::TaskFailed
            | TaskState::TaskError
            | TaskState::TaskKilled
            | TaskState::TaskLost
            | TaskState::TaskDropped
            | TaskState::TaskGone
            | TaskState::TaskGoneByOperator => transition.removed = true,
        }
        transition.task = Some(Arc::clone(known));
        if transition.removed {
            self.unregister(id);
        } else if update == TaskState::TaskFinished {
            self.finish(id);
        }
        transition
    }

    /// Frees the pod's key and remembers the task for a while.
    fn finish(&mut self, id: &str) {
        if let Some(task) = self.tasks.get(id) {
            self.changed.insert(task.pod.clone());
            self.by_pod.remove(&task.pod);
            self.by_agent.remove(&(task.agent_id.clone(), task.id.clone()));
        }
        self.finished.push_back(id.to_owned());
        if self.finished.len() > FINISHED_HISTORY
            && let Some(oldest) = self.finished.pop_front()
        {
            self.tasks.remove(&oldest);
        }
    }
}
