//! Tasks come in: find or start their executor, queue them for it, deliver them once it subscribed.

use km_mesos_proto::v1::{
    self,
    executor::{Event, event},
    task_status::Reason,
};

use super::{
    Action, Agent, Launch, Owner, Phase,
    executor::{Delivery, Executor, Kind, State},
    paths::sandbox,
    task::Task,
    timers::Timer,
};

impl Agent {
    pub(super) fn run_tasks(&mut self, framework: v1::FrameworkInfo, tasks: Vec<v1::TaskInfo>) {
        for task in tasks {
            let (executor, kind) = match &task.executor {
                Some(executor) => (executor.clone(), Kind::Custom),
                None => (command_executor(&task), Kind::Command),
            };
            self.run(framework.clone(), executor, kind, vec![task], false);
        }
    }

    pub(super) fn run_group(
        &mut self,
        framework: v1::FrameworkInfo,
        executor: v1::ExecutorInfo,
        group: v1::TaskGroupInfo,
    ) {
        let kind = match executor.r#type() {
            v1::executor_info::Type::Default => Kind::Default,
            _ => Kind::Custom,
        };
        let mut tasks = group.tasks;
        for task in &mut tasks {
            task.executor = Some(executor.clone());
        }
        self.run(framework, executor, kind, tasks, true);
    }

    /// Launches tasks that belong together on one executor.
    fn run(
        &mut self,
        framework: v1::FrameworkInfo,
        executor: v1::ExecutorInfo,
        kind: Kind,
        tasks: Vec<v1::TaskInfo>,
        group: bool,
    ) {
        if self.phase != Phase::Running {
            return;
        }
        let Some(id) = framework.id.as_ref().map(|id| id.value.clone()) else { return };
        let known = |task: &v1::TaskInfo| {
            self.task(&id, &task.task_id.value).is_some() || self.completed.has_task(&id, &task.task_id.value)
        };
        // The order was repeated: a task never runs twice.
        if tasks.iter().any(known) || self.frameworks.get(&id).is_some_and(|framework| framework.terminating) {
            return;
        }
        self.learn_framework(framework);
        let executor_id = executor.executor_id.value.clone();
        let names: Vec<String> = tasks.iter().map(|task| task.task_id.value.clone()).collect();
        for task in tasks {
            let group = if group { names.clone() } else { Vec::new() };
            self.add_task(&id, Task::new(task, executor_id.clone(), group));
        }
        if self.draining().is_some() {
            self.refuse_while_draining(&id, &executor_id, &names);
            return;
        }
        let state = self.executor(&id, &executor_id).map(|executor| executor.state);
        if state == Some(State::Terminating) {
            self.drop_tasks(&id, &executor_id, &names, "Executor is terminating");
            return;
        }
        for name in &names {
            self.save_task(&id, name);
        }
        if state.is_none() {
            self.start_executor(&id, executor, kind);
        }
        if kind == Kind::Custom {
            let delivery = if group { Delivery::Group(names) } else { Delivery::Task(names.concat()) };
            if let Some(executor) = self.executor_mut(&id, &executor_id) {
                executor.queue.push_back(delivery);
            }
            self.deliver(&id, &executor_id);
        } else {
            for name in names {
                self.start_built_in(&id, &executor_id, &name);
            }
        }
    }

    fn add_task(&mut self, framework: &str, task: Task) {
        if let Some(framework) = self.frameworks.get_mut(framework) {
            framework.tasks.insert(task.info.task_id.value.clone(), task);
        }
    }

    /// Ends tasks that no executor was told of.
    pub(super) fn drop_tasks(&mut self, framework_id: &str, executor_id: &str, tasks: &[String], message: &str) {
        let Some(state) = self.frameworks.get(framework_id).map(|framework| framework.dropped()) else { return };
        for task in tasks {
            let status = self.status(task, state, Some(Reason::ExecutorTerminated), message);
            self.update(framework_id, executor_id, status);
        }
    }

    fn start_executor(&mut self, framework_id: &str, mut info: v1::ExecutorInfo, kind: Kind) {
        let executor_id = info.executor_id.value.clone();
        info.framework_id.get_or_insert_with(|| v1::FrameworkId { value: framework_id.to_owned() });
        let container = self.container_id();
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let executor = Executor::new(info, container.clone(), kind);
        framework.executors.insert(executor_id.clone(), executor);
        self.save_executor(framework_id, &executor_id);
        if kind != Kind::Custom {
            return;
        }
        let owner = Owner { framework: framework_id.to_owned(), executor: executor_id.clone(), task: None };
        self.containers.insert(container.clone(), owner);
        let timer = Timer::Executor(framework_id.to_owned(), executor_id.clone());
        self.timers.set(timer, self.now + self.config.executor_registration_timeout);
        if let Some(launch) = self.executor_launch(framework_id, &executor_id) {
            self.act(Action::Launch(Box::new(launch)));
        }
    }

    fn executor_launch(&self, framework_id: &str, executor_id: &str) -> Option<Launch> {
        let framework = self.frameworks.get(framework_id)?;
        let executor = framework.executors.get(executor_id)?;
        let command = executor.info.command.clone().unwrap_or_default();
        let sandbox = self.sandbox(framework_id, executor_id, &executor.container);
        let user = command.user.clone().unwrap_or_else(|| framework.info.user.clone());
        Some(Launch {
            volumes: self.mounts(&sandbox, &executor.info.resources, Some(&user)),
            container: executor.container.clone(),
            framework_id: framework_id.to_owned(),
            executor_id: executor_id.to_owned(),
            environment: self.executor_environment(framework, executor, &command, &sandbox),
            sandbox,
            user: Some(user),
            command,
        })
    }

    pub(super) fn sandbox(&self, framework: &str, executor: &str, container: &str) -> String {
        sandbox(&self.config.work_dir, &self.agent_id().value, framework, executor, container)
    }

    /// Sends what is queued, if the executor listens.
    pub(super) fn deliver(&mut self, framework_id: &str, executor_id: &str) {
        let Some(executor) = self.executor_mut(framework_id, executor_id) else { return };
        if executor.state != State::Running || executor.connection.is_none() || executor.queue.is_empty() {
            return;
        }
        executor.had_work = true;
        let queue = std::mem::take(&mut executor.queue);
        for delivery in queue {
            let mut infos = Vec::new();
            for name in delivery.tasks() {
                self.link_volumes(framework_id, name);
                if let Some(task) = self.task_mut(framework_id, name) {
                    task.delivered = true;
                    infos.push(task.info.clone());
                }
            }
            let event = match delivery {
                Delivery::Task(_) => infos.pop().map(launch_event),
                Delivery::Group(_) => Some(launch_group_event(infos)),
            };
            if let Some(event) = event {
                self.tell(framework_id, executor_id, event);
            }
        }
    }
}

/// The executor that the agent makes up for a task with a command. Its id is the task's.
fn command_executor(task: &v1::TaskInfo) -> v1::ExecutorInfo {
    let command = task.command.clone().unwrap_or_default();
    let shown = command.value.clone().unwrap_or_else(|| command.arguments.join(" "));
    let id = task.task_id.value.clone();
    v1::ExecutorInfo {
        name: Some(format!("Command Executor (Task: {id}) (Command: {shown})")),
        executor_id: v1::ExecutorId { value: id },
        command: Some(command),
        ..Default::default()
    }
}

fn launch_event(task: v1::TaskInfo) -> Event {
    Event { r#type: Some(event::Type::Launch.into()), launch: Some(event::Launch { task }), ..Default::default() }
}

fn launch_group_event(tasks: Vec<v1::TaskInfo>) -> Event {
    Event {
        r#type: Some(event::Type::LaunchGroup.into()),
        launch_group: Some(event::LaunchGroup { task_group: v1::TaskGroupInfo { tasks } }),
        ..Default::default()
    }
}
