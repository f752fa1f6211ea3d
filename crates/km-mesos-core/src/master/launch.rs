//! LAUNCH and LAUNCH_GROUP on a pool of accepted resources.

use km_mesos_proto::v1::{self, TaskState, task_status::Reason};

use super::{Master, accept::Pool, task::Task, validation};
use crate::link::MasterMessage;

impl Master {
    /// Launches tasks one by one; a bad one is refused and the others go on.
    pub(super) fn launch(&mut self, pool: &mut Pool, tasks: Vec<v1::TaskInfo>) {
        let mut launched = Vec::new();
        for mut task in tasks {
            if let Some(executor) = &mut task.executor {
                executor.framework_id.get_or_insert_with(|| v1::FrameworkId { value: pool.framework.clone() });
            }
            match self.check_task(pool, &task) {
                Ok(()) => {
                    self.start_task(pool, &task, task.executor.as_ref());
                    launched.push(task);
                }
                Err(reason) => {
                    let framework = pool.framework.clone();
                    self.refuse_task(&framework, &task, TaskState::TaskError, Reason::TaskInvalid, &reason);
                }
            }
        }
        let Some(framework) = self.frameworks.get(&pool.framework) else { return };
        if !launched.is_empty() {
            let framework = framework.info.clone();
            self.tell_agent(&pool.agent, MasterMessage::RunTasks { framework, tasks: launched });
        }
    }

    /// Launches a group on one executor: all or nothing.
    pub(super) fn launch_group(&mut self, pool: &mut Pool, executor: v1::ExecutorInfo, mut group: v1::TaskGroupInfo) {
        if let Err(refusal) = self.check_group(pool, &executor, &group) {
            let framework = pool.framework.clone();
            for task in &group.tasks {
                let reason = refusal.reason_for(&task.task_id.value);
                self.refuse_task(&framework, task, TaskState::TaskError, Reason::TaskGroupInvalid, reason);
            }
            return;
        }
        for task in &mut group.tasks {
            task.executor = None;
            self.start_task(pool, task, Some(&executor));
        }
        let Some(framework) = self.frameworks.get(&pool.framework) else { return };
        let framework = framework.info.clone();
        self.tell_agent(&pool.agent, MasterMessage::RunTaskGroup { framework, executor, group });
    }

    fn check_task(&self, pool: &Pool, task: &v1::TaskInfo) -> Result<(), String> {
        let (Some(framework), Some(agent)) = (self.frameworks.get(&pool.framework), self.agents.get(&pool.agent))
        else {
            return Err("The agent is gone".to_owned());
        };
        validation::task::validate(task, framework, agent)?;
        validation::task::fits(task, framework, agent, &pool.available)
    }

    fn check_group(
        &self,
        pool: &Pool,
        executor: &v1::ExecutorInfo,
        group: &v1::TaskGroupInfo,
    ) -> Result<(), validation::group::Refusal> {
        let (Some(framework), Some(agent)) = (self.frameworks.get(&pool.framework), self.agents.get(&pool.agent))
        else {
            return Err(validation::group::Refusal::whole("The agent is gone"));
        };
        validation::group::validate(group, executor, framework, agent, &pool.available)
    }

    /// Books a task that passed all checks: its resources, and its executor's when that is new on the agent.
    fn start_task(&mut self, pool: &mut Pool, task: &v1::TaskInfo, executor: Option<&v1::ExecutorInfo>) {
        let (Some(framework), Some(agent)) =
            (self.frameworks.get_mut(&pool.framework), self.agents.get_mut(&pool.agent))
        else {
            return;
        };
        let booked = Task::launched(task, &framework.info, executor);
        let mut consumed = booked.resources.clone();
        if let Some(executor) = executor {
            let executors = agent.executors.entry(pool.framework.clone()).or_default();
            executors.entry(executor.executor_id.value.clone()).or_insert_with(|| {
                consumed += validation::resource::read(&executor.resources);
                executor.clone()
            });
        }
        // What is shared stays in the pool: other tasks may use it too.
        let shared = consumed.shared();
        pool.available -= consumed.non_shared();
        self.allocator.take_copies(&pool.framework, &pool.agent, &shared);
        *agent.used.entry(pool.framework.clone()).or_default() += consumed;
        let id = task.task_id.value.clone();
        agent.tasks.insert((pool.framework.clone(), id.clone()));
        let added = booked.info.clone();
        framework.tasks.insert(id, booked);
        self.counters.count("operations_launch");
        self.task_added_event(added);
    }
}
