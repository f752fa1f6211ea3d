//! Executors end: by themselves, by a failed launch, or because they took too long. Their tasks end with them.

use km_mesos_proto::v1::{self, TaskState, task_status::Reason};

use super::{
    Action, Agent, Owner,
    environment::duration_text,
    executor::{State, Verdict},
    paths,
    timers::Timer,
};
use crate::link::AgentMessage;

impl Agent {
    pub(super) fn launched(&mut self, container: &str, pid: u32) {
        let Some(Owner { framework, executor, task }) = self.containers.get(container).cloned() else { return };
        match task {
            Some(task) => self.built_in_started(&framework, &task, Some(pid)),
            None => {
                if let Some(executor) = self.executor_mut(&framework, &executor) {
                    executor.launched = true;
                }
            }
        }
    }

    pub(super) fn launch_failed(&mut self, container: &str, message: &str) {
        let Some(Owner { framework, executor, task }) = self.containers.get(container).cloned() else { return };
        if task.is_none()
            && let Some(executor) = self.executor_mut(&framework, &executor)
        {
            executor.verdict.get_or_insert_with(|| Verdict {
                state: TaskState::TaskFailed,
                reason: Reason::ContainerLaunchFailed,
                message: format!("Failed to launch container: {message}"),
            });
        } else if let Some(task) = task {
            let message = format!("Failed to launch container: {message}");
            let status = self.status(&task, TaskState::TaskFailed, Some(Reason::ContainerLaunchFailed), message);
            self.update(&framework, &executor, status);
        }
        self.exited(container, None);
    }

    pub(super) fn exited(&mut self, container: &str, status: Option<i32>) {
        let Some(Owner { framework, executor, task }) = self.containers.remove(container) else { return };
        match task {
            Some(task) => self.built_in_ended(&framework, &executor, &task, status),
            None => self.executor_ended(&framework, &executor, status),
        }
    }

    fn executor_ended(&mut self, framework_id: &str, executor_id: &str, status: Option<i32>) {
        let Some(executor) = self.executor(framework_id, executor_id) else { return };
        let verdict = executor.verdict.clone().unwrap_or_else(|| Verdict {
            state: TaskState::TaskFailed,
            reason: Reason::ExecutorTerminated,
            message: "Executor terminated".to_owned(),
        });
        // The framework hears of the executor first, then of its tasks.
        self.send_exit(framework_id, executor_id, status.unwrap_or(-1));
        for task in self.live_tasks(framework_id, executor_id) {
            let status = self.status(&task, verdict.state, Some(verdict.reason), verdict.message.clone());
            self.update(framework_id, executor_id, status);
        }
        self.remove_executor(framework_id, executor_id, None);
    }

    fn send_exit(&mut self, framework_id: &str, executor_id: &str, status: i32) {
        let Some(framework_id) = self.frameworks.get(framework_id).map(|framework| framework.id()) else { return };
        let executor_id = v1::ExecutorId { value: executor_id.to_owned() };
        self.send(AgentMessage::ExecutorExited { framework_id, executor_id, status });
    }

    /// Forgets an executor that is no more; with a status, the framework hears of it.
    pub(super) fn remove_executor(&mut self, framework_id: &str, executor_id: &str, status: Option<i32>) {
        self.timers.cancel(&Timer::Executor(framework_id.to_owned(), executor_id.to_owned()));
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let checkpoint = framework.checkpoint();
        let Some(executor) = framework.executors.remove(executor_id) else { return };
        if let Some(connection) = executor.connection {
            self.act(Action::CloseStream { connection });
        }
        if checkpoint {
            self.act(Action::Remove { path: paths::executor_directory(framework_id, executor_id) });
        }
        if let Some(status) = status {
            self.send_exit(framework_id, executor_id, status);
        }
        self.completed.add_executor(executor.info);
        self.forget_framework_when_done(framework_id);
    }

    /// The executor did not register in time, or not end in time.
    pub(super) fn executor_timer(&mut self, framework_id: &str, executor_id: &str) {
        let timeout = self.config.executor_registration_timeout;
        let Some(executor) = self.executor_mut(framework_id, executor_id) else { return };
        if executor.state == State::Registering {
            let (reason, message) = if executor.launched {
                let message = format!("Executor did not register within {}", duration_text(timeout));
                (Reason::ExecutorRegistrationTimeout, message)
            } else {
                let message = format!("Container was not launched within {}", duration_text(timeout));
                (Reason::ContainerLaunchFailed, message)
            };
            executor.verdict = Some(Verdict { state: TaskState::TaskFailed, reason, message });
            executor.state = State::Terminating;
        }
        let container = executor.container.clone();
        self.act(Action::Destroy { container });
    }
}

/// A wait status in words.
pub(super) fn exit_text(status: Option<i32>) -> String {
    match status {
        None => "exit status unknown".to_owned(),
        Some(status) if status & 0x7f == 0 => format!("exited with status {}", status >> 8 & 0xff),
        Some(status) => format!("terminated with signal {}", signal_name(status & 0x7f)),
    }
}

/// The name of a signal as Mesos prints it.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        11 => "Segmentation fault",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        _ => return signal.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_in_words() {
        for (status, text) in [
            (Some(0), "exited with status 0"),
            (Some(256), "exited with status 1"),
            (Some(255 * 256), "exited with status 255"),
            (Some(9), "terminated with signal Killed"),
            (Some(15), "terminated with signal Terminated"),
            (Some(35), "terminated with signal 35"),
            (None, "exit status unknown"),
        ] {
            assert_eq!(exit_text(status), text);
        }
    }
}
