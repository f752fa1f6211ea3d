//! The agent as operators see it.

use std::collections::VecDeque;

use km_mesos_proto::{
    resources::Resources,
    v1::{self, TaskState, agent::response},
};

use super::{Agent, executor::State, task::Task};

/// How many completed frameworks, executors and tasks are remembered, each.
const REMEMBERED: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Completed {
    tasks: VecDeque<(String, v1::Task)>,
    executors: VecDeque<v1::ExecutorInfo>,
    frameworks: VecDeque<v1::FrameworkInfo>,
    counts: [u64; 5],
    executors_ended: u64,
}

impl Completed {
    pub fn add_task(&mut self, framework: &str, task: Task) {
        let column = match task.state {
            TaskState::TaskFinished => 0,
            TaskState::TaskFailed => 1,
            TaskState::TaskKilled => 2,
            TaskState::TaskGone => 3,
            _ => 4,
        };
        self.counts[column] += 1;
        push(&mut self.tasks, (framework.to_owned(), task.to_proto(framework)));
    }

    pub fn has_task(&self, framework: &str, task: &str) -> bool {
        self.tasks.iter().any(|(owner, known)| owner == framework && known.task_id.value == task)
    }

    pub fn add_executor(&mut self, executor: v1::ExecutorInfo) {
        self.executors_ended += 1;
        push(&mut self.executors, executor);
    }

    pub fn add_framework(&mut self, framework: v1::FrameworkInfo) {
        push(&mut self.frameworks, framework);
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == REMEMBERED {
        list.pop_front();
    }
    list.push_back(item);
}

/// What is counted of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub frameworks: u64,
    pub executors_registering: u64,
    pub executors_running: u64,
    pub executors_terminating: u64,
    pub tasks_staging: u64,
    pub tasks_starting: u64,
    pub tasks_running: u64,
    pub tasks_killing: u64,
    /// Of tasks that ended and whose last update was acknowledged, since the agent's start.
    pub tasks_finished: u64,
    pub tasks_failed: u64,
    pub tasks_killed: u64,
    pub tasks_gone: u64,
    pub tasks_lost: u64,
    pub executors_terminated: u64,
}

impl Agent {
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { frameworks: self.frameworks.len() as u64, ..Default::default() };
        for framework in self.frameworks.values() {
            for executor in framework.executors.values() {
                *match executor.state {
                    State::Registering if !executor.is_built_in() => &mut counts.executors_registering,
                    State::Registering | State::Running => &mut counts.executors_running,
                    State::Terminating => &mut counts.executors_terminating,
                } += 1;
            }
            for task in framework.tasks.values().filter(|task| !task.foreign) {
                match task.state {
                    TaskState::TaskStaging => counts.tasks_staging += 1,
                    TaskState::TaskStarting => counts.tasks_starting += 1,
                    TaskState::TaskRunning => counts.tasks_running += 1,
                    TaskState::TaskKilling => counts.tasks_killing += 1,
                    _ => {}
                }
            }
        }
        let ended = self.completed.counts;
        [counts.tasks_finished, counts.tasks_failed, counts.tasks_killed, counts.tasks_gone, counts.tasks_lost] = ended;
        counts.executors_terminated = self.completed.executors_ended;
        counts
    }

    /// What executors and tasks that have not ended hold.
    pub fn used(&self) -> Resources {
        let mut used = Resources::default();
        for framework in self.frameworks.values() {
            let tasks = framework.tasks.values().filter(|task| !task.foreign && !task.is_terminal());
            let held = tasks.map(|task| &task.info.resources);
            let executors = framework.executors.values().map(|executor| &executor.info.resources);
            for resources in held.chain(executors) {
                // The master checked them; what can't be read counts as nothing.
                used += Resources::from_protos(resources).unwrap_or_default().unallocated();
            }
        }
        used
    }

    pub fn get_frameworks(&self) -> response::GetFrameworks {
        let describe = |info: &v1::FrameworkInfo| response::get_frameworks::Framework { framework_info: info.clone() };
        response::GetFrameworks {
            frameworks: self.frameworks.values().map(|framework| describe(&framework.info)).collect(),
            completed_frameworks: self.completed.frameworks.iter().map(describe).collect(),
        }
    }

    pub fn get_executors(&self) -> response::GetExecutors {
        let describe = |info: &v1::ExecutorInfo| response::get_executors::Executor { executor_info: info.clone() };
        let executors = self.frameworks.values().flat_map(|framework| framework.executors.values());
        response::GetExecutors {
            executors: executors.map(|executor| describe(&executor.info)).collect(),
            completed_executors: self.completed.executors.iter().map(describe).collect(),
        }
    }

    pub fn get_tasks(&self) -> response::GetTasks {
        let mut tasks = response::GetTasks::default();
        for (id, framework) in &self.frameworks {
            for task in framework.tasks.values().filter(|task| !task.foreign) {
                let list = if task.is_terminal() {
                    &mut tasks.terminated_tasks
                } else if task.delivered {
                    &mut tasks.launched_tasks
                } else {
                    &mut tasks.queued_tasks
                };
                list.push(task.to_proto(id));
            }
        }
        tasks.completed_tasks = self.completed.tasks.iter().map(|(_, task)| task.clone()).collect();
        tasks
    }

    pub fn get_state(&self) -> response::GetState {
        response::GetState {
            get_tasks: Some(self.get_tasks()),
            get_executors: Some(self.get_executors()),
            get_frameworks: Some(self.get_frameworks()),
        }
    }

    /// The containers of executors and of tasks the agent runs itself.
    pub fn get_containers(&self) -> response::GetContainers {
        let describe = |(container, owner): (&String, &super::Owner)| {
            let info = self.executor(&owner.framework, &owner.executor).map(|executor| &executor.info);
            response::get_containers::Container {
                framework_id: Some(v1::FrameworkId { value: owner.framework.clone() }),
                executor_id: Some(v1::ExecutorId { value: owner.executor.clone() }),
                executor_name: Some(info.and_then(|info| info.name.clone()).unwrap_or_default()),
                container_id: v1::ContainerId { value: container.clone(), parent: None },
                container_status: None,
            }
        };
        response::GetContainers { containers: self.containers.iter().map(describe).collect() }
    }

    /// Where an executor's newest sandbox is, for file serving.
    pub fn sandbox_of(&self, framework_id: &str, executor_id: &str) -> Option<String> {
        let executor = self.executor(framework_id, executor_id)?;
        Some(self.sandbox(framework_id, executor_id, &executor.container))
    }
}
