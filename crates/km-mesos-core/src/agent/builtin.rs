//! Tasks that the agent runs itself: those with a plain `command`, and groups under an executor of type DEFAULT.
//!
//! Apache Mesos runs a program of its own for them, which speaks the executor API. Here it is the agent; what a
//! framework sees (STARTING, RUNNING, the ends and their messages, the kill grace) is the same.

use std::time::Duration;

use km_mesos_proto::v1::{
    self, KillPolicy, TaskState,
    framework_info::capability,
    task_status::{Reason, Source},
};

use super::{
    Action, Agent, Launch, Owner,
    executor::{Kind, nanoseconds},
    exit::exit_text,
    task::{Ending, Process},
    timers::Timer,
};

/// How long a killed task may take when neither task nor framework says.
const KILL_GRACE: Duration = Duration::from_secs(3);

impl Agent {
    pub(super) fn start_built_in(&mut self, framework_id: &str, executor_id: &str, task_id: &str) {
        let Some(executor) = self.executor(framework_id, executor_id) else { return };
        let container = match executor.kind {
            Kind::Command => executor.container.clone(),
            Kind::Custom | Kind::Default => self.container_id(),
        };
        let owner = Owner {
            framework: framework_id.to_owned(),
            executor: executor_id.to_owned(),
            task: Some(task_id.to_owned()),
        };
        self.containers.insert(container.clone(), owner);
        let Some(task) = self.task_mut(framework_id, task_id) else { return };
        task.delivered = true;
        task.process = Some(Process { container: container.clone(), started: false, ending: None });
        self.save_task(framework_id, task_id);
        if let Some(launch) = self.task_launch(framework_id, executor_id, task_id, container) {
            self.act(Action::Launch(Box::new(launch)));
        }
    }

    fn task_launch(&self, framework_id: &str, executor_id: &str, task_id: &str, container: String) -> Option<Launch> {
        let framework = self.frameworks.get(framework_id)?;
        let executor = framework.executors.get(executor_id)?;
        let task = framework.tasks.get(task_id)?;
        let own = self.sandbox(framework_id, executor_id, &executor.container);
        let sandbox = if executor.kind == Kind::Default { format!("{own}/containers/{container}") } else { own };
        let command = task.info.command.clone().unwrap_or_default();
        let mut environment = self.executor_environment(framework, executor, &command, &sandbox);
        environment.push(("MESOS_TASK_ID".to_owned(), task_id.to_owned()));
        let allocation =
            task.info.resources.iter().find_map(|resource| resource.allocation_info.as_ref()?.role.clone());
        if let Some(role) = allocation {
            environment.push(("MESOS_ALLOCATION_ROLE".to_owned(), role));
        }
        let user = command.user.clone().unwrap_or_else(|| framework.info.user.clone());
        Some(Launch {
            container,
            framework_id: framework_id.to_owned(),
            executor_id: executor_id.to_owned(),
            volumes: self.mounts(&sandbox, &task.info.resources, Some(&user)),
            sandbox,
            environment,
            user: Some(user),
            command,
        })
    }

    /// The task's process runs (`pid` is unknown after a restart of the agent).
    pub(super) fn built_in_started(&mut self, framework_id: &str, task_id: &str, pid: Option<u32>) {
        let Some(task) = self.task_mut(framework_id, task_id) else { return };
        let Some(process) = task.process.as_mut().filter(|process| !process.started) else { return };
        process.started = true;
        if process.ending.is_some() || task.is_terminal() {
            return;
        }
        let executor_id = task.executor_id.clone();
        let limit = task.info.max_completion_time;
        for state in [TaskState::TaskStarting, TaskState::TaskRunning] {
            let mut status = self.status_from(Source::Executor, task_id, state, None, "");
            if pid.is_some() {
                status.container_status = Some(v1::ContainerStatus { executor_pid: pid, ..Default::default() });
            }
            self.update(framework_id, &executor_id, status);
        }
        if let Some(limit) = limit {
            let timer = Timer::Completion(framework_id.to_owned(), task_id.to_owned());
            self.timers.set(timer, self.now + nanoseconds(limit.nanoseconds));
        }
    }

    /// Asks a task to end. `grace` rules over the policies.
    pub(super) fn kill_built_in(
        &mut self,
        framework_id: &str,
        task_id: &str,
        policy: Option<KillPolicy>,
        grace: Option<Duration>,
    ) {
        let Some(task) = self.task_mut(framework_id, task_id) else { return };
        let executor_id = task.executor_id.clone();
        let own = task.info.kill_policy;
        let Some(process) = task.process.as_mut().filter(|process| process.ending.is_none()) else { return };
        process.ending = Some(Ending::Killed);
        let (started, container) = (process.started, process.container.clone());
        self.save_task(framework_id, task_id);
        if !started {
            let message = "Killed before the command was started";
            let status = self.status(task_id, TaskState::TaskKilled, Some(Reason::TaskKilledDuringLaunch), message);
            self.update(framework_id, &executor_id, status);
            self.act(Action::Destroy { container });
            return;
        }
        let tells = |framework: &super::Framework| framework.is_capable(capability::Type::TaskKillingState);
        if self.frameworks.get(framework_id).is_some_and(tells) {
            let status = self.status_from(Source::Executor, task_id, TaskState::TaskKilling, None, "");
            self.update(framework_id, &executor_id, status);
        }
        let asked = [policy, own].into_iter().flatten().find_map(|policy| policy.grace_period);
        let grace = grace.or(asked.map(|period| nanoseconds(period.nanoseconds))).unwrap_or(KILL_GRACE);
        self.end_softly(framework_id, task_id, container, grace);
    }

    fn end_softly(&mut self, framework_id: &str, task_id: &str, container: String, grace: Duration) {
        self.act(Action::Signal { container });
        self.timers.set(Timer::KillGrace(framework_id.to_owned(), task_id.to_owned()), self.now + grace);
    }

    /// After a restart of the agent, nobody knows how much of the grace was left.
    pub(super) fn resume_ending(&mut self, framework_id: &str, task_id: &str) {
        let Some(task) = self.task(framework_id, task_id) else { return };
        let ending = task.process.as_ref().filter(|process| process.ending.is_some());
        if let Some(container) = ending.map(|process| process.container.clone()) {
            self.end_softly(framework_id, task_id, container, KILL_GRACE);
        }
    }

    pub(super) fn kill_grace_over(&mut self, framework_id: &str, task_id: &str) {
        let process = self.task(framework_id, task_id).and_then(|task| task.process.as_ref());
        if let Some(container) = process.map(|process| process.container.clone()) {
            self.act(Action::Destroy { container });
        }
    }

    pub(super) fn completion_time_over(&mut self, framework_id: &str, task_id: &str) {
        let Some(task) = self.task_mut(framework_id, task_id) else { return };
        let Some(process) = task.process.as_mut().filter(|process| process.ending.is_none()) else { return };
        process.ending = Some(Ending::OutOfTime);
        let container = process.container.clone();
        self.save_task(framework_id, task_id);
        self.end_softly(framework_id, task_id, container, KILL_GRACE);
    }

    /// The task's process and all its children are gone.
    pub(super) fn built_in_ended(&mut self, framework_id: &str, executor_id: &str, task_id: &str, exit: Option<i32>) {
        let Some(task) = self.task(framework_id, task_id) else {
            self.forget_built_in_when_done(framework_id, executor_id);
            return;
        };
        let group = task.group.clone();
        let ending = task.process.as_ref().and_then(|process| process.ending);
        let started = task.process.as_ref().is_some_and(|process| process.started);
        let message = format!("Command {}", exit_text(exit));
        let (state, reason) = match (ending, exit) {
            (Some(Ending::Killed), _) => (TaskState::TaskKilled, None),
            (Some(Ending::OutOfTime), _) => (TaskState::TaskFailed, Some(Reason::MaxCompletionTimeReached)),
            (None, Some(0)) => (TaskState::TaskFinished, None),
            (None, Some(_)) => (TaskState::TaskFailed, Some(Reason::CommandExecutorFailed)),
            (None, None) => (TaskState::TaskFailed, Some(Reason::ExecutorTerminated)),
        };
        if !started && exit.is_some() {
            // It ended before its start was reported.
            self.built_in_started(framework_id, task_id, None);
        }
        let source = if exit.is_some() { Source::Executor } else { Source::Agent };
        let status = self.status_from(source, task_id, state, reason, message);
        self.update(framework_id, executor_id, status);
        for timer in [Timer::KillGrace, Timer::Completion] {
            self.timers.cancel(&timer(framework_id.to_owned(), task_id.to_owned()));
        }
        if state != TaskState::TaskFinished {
            for other in group.iter().filter(|other| *other != task_id) {
                self.kill_built_in(framework_id, other, None, None);
            }
        }
        self.forget_built_in_when_done(framework_id, executor_id);
    }

    /// A built-in executor ends with the last of its processes.
    fn forget_built_in_when_done(&mut self, framework_id: &str, executor_id: &str) {
        let busy = |owner: &Owner| owner.framework == framework_id && owner.executor == executor_id;
        if self.containers.values().any(busy) {
            return;
        }
        let Some(executor) = self.executor(framework_id, executor_id) else { return };
        let status = (executor.kind == Kind::Default).then_some(0);
        self.remove_executor(framework_id, executor_id, status);
    }
}
