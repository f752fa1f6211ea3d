//! Ending tasks and executors on demand.

use km_mesos_proto::v1::{
    self, KillPolicy, TaskState,
    executor::{Event, event},
    task_status::Reason,
};

use super::{
    Action, Agent,
    executor::{Delivery, State},
    timers::Timer,
};

impl Agent {
    /// The framework wants a task to end.
    pub(super) fn kill_task(&mut self, framework_id: &str, task_id: &str, kill_policy: Option<KillPolicy>) {
        let Some(framework) = self.frameworks.get(framework_id) else { return };
        let Some(task) = framework.tasks.get(task_id) else {
            self.kill_unknown_task(framework_id, task_id);
            return;
        };
        if task.is_terminal() || task.foreign {
            return;
        }
        let executor_id = task.executor_id.clone();
        if task.process.is_some() {
            self.kill_built_in(framework_id, task_id, kill_policy, None);
        } else if task.delivered {
            let kill = event::Kill { task_id: v1::TaskId { value: task_id.to_owned() }, kill_policy };
            if !self.tell(framework_id, &executor_id, kill_event(kill.clone()))
                && let Some(executor) = self.executor_mut(framework_id, &executor_id)
            {
                executor.kills.push(kill);
            }
        } else {
            self.kill_queued(framework_id, &executor_id, task_id);
        }
    }

    /// The master believes in a task that is not here: tell the truth, unless that was told already.
    fn kill_unknown_task(&mut self, framework_id: &str, task_id: &str) {
        if self.completed.has_task(framework_id, task_id) {
            return;
        }
        let Some(state) = self.frameworks.get(framework_id).map(|framework| framework.dropped()) else { return };
        let status = self.status(task_id, state, Some(Reason::Reconciliation), "Task is unknown to the agent");
        self.update(framework_id, "", status);
    }

    /// A task that its executor was not told of ends here, and with it those of its group.
    fn kill_queued(&mut self, framework_id: &str, executor_id: &str, task_id: &str) {
        let Some(executor) = self.executor_mut(framework_id, executor_id) else { return };
        let Some(position) = executor.queue.iter().position(|queued| queued.tasks().iter().any(|id| id == task_id))
        else {
            return;
        };
        let Some(delivery) = executor.queue.remove(position) else { return };
        let message = match delivery {
            Delivery::Task(_) => "Killed before delivery to the executor",
            Delivery::Group(_) => "A task within the task group was killed before delivery to the executor",
        };
        for id in delivery.tasks() {
            let status = self.status(id, TaskState::TaskKilled, Some(Reason::TaskKilledDuringLaunch), message);
            self.update(framework_id, executor_id, status);
        }
        self.shut_down_when_idle(framework_id, executor_id);
    }

    pub(super) fn deliver_kills(&mut self, framework_id: &str, executor_id: &str) {
        let Some(executor) = self.executor_mut(framework_id, executor_id) else { return };
        for kill in std::mem::take(&mut executor.kills) {
            if self.task(framework_id, &kill.task_id.value).is_some_and(|task| !task.is_terminal()) {
                self.tell(framework_id, executor_id, kill_event(kill));
            }
        }
    }

    /// An executor that subscribed, and whose first tasks were all killed or dropped, is of no use to anybody. Says
    /// whether it was one.
    pub(super) fn shut_down_when_idle(&mut self, framework_id: &str, executor_id: &str) -> bool {
        let Some(executor) = self.executor(framework_id, executor_id) else { return false };
        let listens = executor.state == State::Running && executor.connection.is_some();
        let idle = listens && !executor.had_work && self.live_tasks(framework_id, executor_id).is_empty();
        if idle {
            self.shutdown_executor(framework_id, executor_id);
        }
        idle
    }

    /// Asks an executor to end, and ends it when it takes too long.
    pub(super) fn shutdown_executor(&mut self, framework_id: &str, executor_id: &str) {
        let default = self.config.executor_shutdown_grace_period;
        let Some(executor) = self.executor_mut(framework_id, executor_id) else { return };
        if executor.state == State::Terminating {
            return;
        }
        executor.state = State::Terminating;
        let grace = executor.shutdown_grace(default);
        if executor.is_built_in() {
            for task in self.live_tasks(framework_id, executor_id) {
                self.kill_built_in(framework_id, &task, None, Some(grace));
            }
            return;
        }
        let (launched, container) = (executor.launched, executor.container.clone());
        let queued: Vec<String> =
            std::mem::take(&mut executor.queue).iter().flat_map(|delivery| delivery.tasks().to_vec()).collect();
        self.drop_tasks(framework_id, executor_id, &queued, "Executor was shut down before the task was delivered");
        self.tell(framework_id, executor_id, shutdown_event());
        let timer = Timer::Executor(framework_id.to_owned(), executor_id.to_owned());
        if launched {
            self.timers.set(timer, self.now + grace);
        } else {
            self.timers.cancel(&timer);
            self.act(Action::Destroy { container });
        }
    }
}

fn kill_event(kill: event::Kill) -> Event {
    Event { r#type: Some(event::Type::Kill.into()), kill: Some(kill), ..Default::default() }
}

pub(super) fn shutdown_event() -> Event {
    Event { r#type: Some(event::Type::Shutdown.into()), ..Default::default() }
}
