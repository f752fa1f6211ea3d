//! The pods of an executor: their machines, over containers that do what they are told, most of the time.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use km_executor::tasks::Event as TaskEvent;
use km_pod::{Action, Event, Exit, Outcome, PodMachine};
use km_podtask::PodKey;
use rand::Rng;

use crate::{delivery::ToExecutor, world::World};
use km_fakeapi::uid_of;

const SIGKILL: i32 = 9;

/// A pod that was started.
pub(crate) struct Running {
    task: String,
    pub key: PodKey,
    machine: PodMachine,
    timer: Option<Duration>,
    running_reported: bool,
    /// The newest status that isn't written yet, and whether that is being tried.
    pub wanted: Option<PodStatus>,
    pub writing: bool,
    outcome: Option<Outcome>,
    /// The attempt of each container that runs.
    containers: Vec<(String, u32)>,
}

impl World {
    pub(super) fn pod_starts(&mut self, agent: usize, container: &str, task: String, machine: PodMachine) {
        let uid = uid_of(machine.pod());
        if let Err(broken) = self.runs.pod_started(agent, container, &task, &uid) {
            self.violate(|| broken);
        }
        let running = Running {
            task,
            key: PodKey::of(&machine.pod().metadata),
            machine,
            timer: None,
            running_reported: false,
            wanted: None,
            writing: false,
            outcome: None,
            containers: Vec::new(),
        };
        if let Some(executor) = self.hosts[agent].executors.get_mut(container) {
            executor.pods.insert(uid.clone(), running);
        }
        self.machine_event(agent, container, &uid, Event::Start);
    }

    fn running(&mut self, agent: usize, container: &str, uid: &str) -> Option<&mut Running> {
        self.hosts[agent].executors.get_mut(container)?.pods.get_mut(uid)
    }

    pub(super) fn machine_event(&mut self, agent: usize, container: &str, uid: &str, event: Event) {
        let now = self.moment();
        let Some(pod) = self.running(agent, container, uid) else { return };
        match &event {
            Event::Started { container, attempt, .. } => pod.containers.push((container.clone(), *attempt)),
            Event::Exited { container, attempt, .. } => {
                let ended = (container.clone(), *attempt);
                pod.containers.retain(|known| *known != ended);
            }
            _ => {}
        }
        for action in pod.machine.handle(now, event) {
            self.machine_acts(agent, container, uid, action);
        }
    }

    fn machine_acts(&mut self, agent: usize, executor: &str, uid: &str, action: Action) {
        let answer = match action {
            Action::MountVolumes => Event::VolumesReady,
            Action::RemoveVolumes => Event::VolumesRemoved,
            Action::RunSandbox if self.mishap(0.02) => Event::SandboxFailed { message: "no network".to_owned() },
            Action::RunSandbox => Event::SandboxReady { ip: None },
            Action::RemoveSandbox => Event::SandboxRemoved,
            Action::CheckImage { container, .. } => {
                Event::ImageChecked { container, image_id: Some("image".to_owned()) }
            }
            Action::PullImage { container, .. } => Event::ImagePulled { container, image_id: "image".to_owned() },
            Action::StartContainer { container, attempt, .. } => {
                Event::Started { container, attempt, at: self.moment().wall }
            }
            Action::ResizeContainer { container, attempt, .. } => Event::Resized { container, attempt, result: Ok(()) },
            Action::Signal { container, attempt, signal } => {
                // Some programs don't listen.
                if signal != SIGKILL && self.mishap(0.2) {
                    return;
                }
                let exit = self.exit(128 + signal);
                Event::Exited { container, attempt, exit }
            }
            Action::Probe { container, attempt, kind, .. } => {
                Event::Probed { container, attempt, kind, result: Ok(()) }
            }
            Action::RunHook { container, attempt, hook, .. } => {
                Event::HookFinished { container, attempt, hook, result: Ok(()) }
            }
            Action::PublishStatus(status) => {
                self.publish_status(agent, executor, uid, *status);
                return;
            }
            Action::SetTimer { at } => {
                if let Some(pod) = self.running(agent, executor, uid) {
                    pod.timer = Some(at);
                }
                let delay = at.saturating_sub(self.now);
                self.at_executor(agent, executor, delay, ToExecutor::PodTimer(uid.to_owned(), at));
                return;
            }
            Action::Done(outcome) => {
                if let Some(pod) = self.running(agent, executor, uid) {
                    pod.outcome = Some(outcome);
                }
                self.end_when_written(agent, executor, uid);
                return;
            }
            Action::RemoveContainer { .. } | Action::Event { .. } => return,
        };
        let slow = self.mishap(0.03);
        let delay = self.around(Duration::from_millis(if slow { 5000 } else { 50 }));
        self.at_executor(agent, executor, delay, ToExecutor::Machine(uid.to_owned(), Box::new(answer)));
    }

    fn exit(&self, code: i32) -> Exit {
        let wall = self.moment().wall;
        let (reason, message) = (String::new(), String::new());
        Exit { code, signal: None, reason, message, started_at: None, finished_at: wall }
    }

    fn publish_status(&mut self, agent: usize, container: &str, uid: &str, status: PodStatus) {
        let Some(pod) = self.running(agent, container, uid) else { return };
        let begins = status.phase.as_deref() == Some("Running") && !pod.running_reported;
        pod.running_reported |= begins;
        pod.wanted = Some(status.clone());
        let idle = !std::mem::replace(&mut pod.writing, true);
        let task = pod.task.clone();
        if idle {
            let delay = self.latency();
            self.at_executor(agent, container, delay, ToExecutor::WriteStatus(uid.to_owned()));
        }
        if begins {
            self.report.runs += 1;
            let status = Box::new(status);
            self.executor_event(agent, container, TaskEvent::Running { task, status });
        }
    }

    /// A pod's end is reported when its last status is durable.
    pub(super) fn end_when_written(&mut self, agent: usize, container: &str, uid: &str) {
        let Some(pod) = self.running(agent, container, uid) else { return };
        if pod.writing {
            return;
        }
        let Some(outcome) = pod.outcome.take() else { return };
        let task = pod.task.clone();
        self.runs.pod_ended(uid);
        self.executor_event(agent, container, TaskEvent::Ended { task, outcome });
    }

    pub(super) fn forget_pod(&mut self, agent: usize, container: &str, uid: &str) {
        if let Some(executor) = self.hosts[agent].executors.get_mut(container) {
            executor.pods.remove(uid);
        }
    }

    pub(super) fn pod_timer(&mut self, agent: usize, container: &str, uid: &str, at: Duration) {
        let Some(pod) = self.running(agent, container, uid).filter(|pod| pod.timer == Some(at)) else { return };
        pod.timer = None;
        self.machine_event(agent, container, uid, Event::Timer);
    }

    pub(super) fn grace_of(&mut self, agent: usize, container: &str, uid: &str) -> Duration {
        self.running(agent, container, uid).map_or(Duration::from_secs(30), |pod| pod.machine.grace())
    }

    /// The program of some container on that host ends by itself; says whether there was one.
    pub(crate) fn program_ends(&mut self, agent: usize, code: i32) -> bool {
        let mut found = Vec::new();
        for (container, executor) in &self.hosts[agent].executors {
            for (uid, pod) in &executor.pods {
                found.extend(pod.containers.iter().map(|(name, attempt)| (container, uid, name, *attempt)));
            }
        }
        if found.is_empty() {
            return false;
        }
        let (container, uid, name, attempt) = found[self.rng.random_range(0..found.len())];
        let (container, uid, name) = (container.clone(), uid.clone(), name.clone());
        self.note(|| format!("{uid} on {agent} ends with {code}"));
        let exit = self.exit(code);
        self.machine_event(agent, &container, &uid, Event::Exited { container: name, attempt, exit });
        true
    }
}
