//! What an executor's core wants done.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use km_executor::tasks::{Action, Event};
use km_mesos_core::master::terminal;
use km_mesos_proto::v1::{TaskInfo, TaskStatus};
use km_pod::PodMachine;

use crate::{delivery::ToExecutor, world::World};

impl World {
    pub(super) fn executor_event(&mut self, agent: usize, container: &str, event: Event) {
        let now = self.now;
        let Some(executor) = self.hosts[agent].executors.get_mut(container) else { return };
        for action in executor.tasks.handle(now, event) {
            self.executor_acts(agent, container, action);
        }
    }

    fn executor_acts(&mut self, agent: usize, container: &str, action: Action) {
        match action {
            Action::Bind { task, pod } => {
                let delay = self.bind_delay();
                self.at_executor(agent, container, delay, ToExecutor::Bind(task, pod));
            }
            Action::StartPod { task, pod, allotment } => {
                let machine = PodMachine::new(*pod, None).within(Some(allotment));
                self.pod_starts(agent, container, task, machine);
            }
            Action::UpdatePod { uid, pod } => {
                self.machine_event(agent, container, &uid, km_pod::Event::Updated(pod));
            }
            Action::StopPod { uid, cause, grace } => {
                let grace = grace.unwrap_or_else(|| self.grace_of(agent, container, &uid));
                self.machine_event(agent, container, &uid, km_pod::Event::Stop { cause, grace });
            }
            Action::Send(status) => self.task_reports(agent, container, *status),
            Action::DeletePod { key, then } => {
                let delay = self.latency();
                self.at_executor(agent, container, delay, ToExecutor::DeletePod(key, then));
            }
            Action::ForgetPod { uid } => self.forget_pod(agent, container, &uid),
            // Only an idle executor has a timer, and these never are.
            Action::SetTimer { .. } => {}
            Action::Exit { .. } => {
                if let Some(executor) = self.hosts[agent].executors.get_mut(container) {
                    executor.leaving = true;
                }
                self.leave_when_done(agent, container);
            }
        }
    }

    pub(super) fn task_arrives(&mut self, agent: usize, container: &str, info: &TaskInfo) {
        let pod: Pod = serde_json::from_slice(info.data.as_deref().unwrap_or_default()).unwrap_or_default();
        let sizes = (self.settings.agent_milli_cpu, self.settings.agent_megabytes * 1000);
        if let Err(broken) = self.runs.task_arrived(agent, container, info, &pod, sizes) {
            self.violate(|| broken);
        }
    }

    /// A task's state goes to the agent. A task that has ended holds nothing any more.
    pub(super) fn task_reports(&mut self, agent: usize, container: &str, status: TaskStatus) {
        if terminal(status.state()) {
            self.runs.task_ended(agent, &status.task_id.value);
        }
        self.send_status(agent, container, status);
    }

    pub(super) fn leave_when_done(&mut self, agent: usize, container: &str) {
        let done = |executor: &super::Executor| executor.leaving && executor.pending.updates().is_empty();
        if self.hosts[agent].executors.get(container).is_some_and(done) {
            self.executor_ends(agent, container);
        }
    }

    fn bind_delay(&mut self) -> Duration {
        // Some API servers are slow.
        let slow = self.mishap(0.1);
        self.around(Duration::from_millis(if slow { 3000 } else { 60 }))
    }
}
