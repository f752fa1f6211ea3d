//! A runtime, a clock and an API server that the tests play by hand.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus},
    jiff::{SignedDuration, Timestamp},
};
use serde_json::{Value, from_value, json};

use crate::{Action, Allotment, Event, Exit, Moment, Outcome, PodMachine, StartFailure, StopCause};

/// The machine, what it asked for and what followed from it.
pub struct World {
    pub machine: PodMachine,
    pub now: Duration,
    /// Asked for and not answered yet.
    pub open: Vec<Action>,
    pub events: Vec<(&'static str, String)>,
    pub signals: Vec<(String, i32)>,
    pub removed: Vec<(String, u32)>,
    pub status: PodStatus,
    pub timer: Option<Duration>,
    pub done: Option<Outcome>,
    /// Container and attempt of what runs or is being started.
    pub live: BTreeSet<(String, u32)>,
    pub sandbox: bool,
    pub volumes: bool,
}

pub fn pod(spec: Value) -> Pod {
    let mut pod: Pod = from_value(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}})).unwrap();
    pod.spec = Some(from_value(spec).unwrap());
    pod
}

impl World {
    pub fn new(spec: Value) -> Self {
        Self {
            machine: PodMachine::new(pod(spec), Some("10.0.0.1".parse().unwrap())),
            now: Duration::ZERO,
            open: Vec::new(),
            events: Vec::new(),
            signals: Vec::new(),
            removed: Vec::new(),
            status: PodStatus::default(),
            timer: None,
            done: None,
            live: BTreeSet::new(),
            sandbox: false,
            volumes: false,
        }
    }

    /// The pod's task holds so much.
    pub fn holding(mut self, milli_cpu: i64, memory_bytes: i64) -> Self {
        self.machine = self.machine.within(Some(Allotment { milli_cpu, memory_bytes, of_limits: false }));
        self
    }

    /// The pod's object changes.
    pub fn update(&mut self, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.machine.pod().clone();
        change(&mut pod);
        self.send(Event::Updated(Box::new(pod)));
    }

    /// A started pod whose volumes and sandbox are there and whose startable containers run.
    pub fn running(spec: Value) -> Self {
        let mut world = Self::new(spec);
        world.send(Event::Start);
        world.settle();
        world
    }

    pub fn wall(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.now).unwrap()
    }

    pub fn send(&mut self, event: Event) {
        if let Event::Exited { container, attempt, .. } | Event::StartFailed { container, attempt, .. } = &event {
            self.live.remove(&(container.clone(), *attempt));
        }
        let actions = self.machine.handle(Moment { mono: self.now, wall: self.wall() }, event);
        for action in actions {
            assert!(self.done.is_none(), "{action:?} after the end");
            self.note(action);
        }
    }

    fn note(&mut self, action: Action) {
        match action {
            Action::PublishStatus(status) => {
                check_succession(&self.status, &status);
                self.status = *status;
            }
            Action::Event { reason, message, .. } => self.events.push((reason, message)),
            Action::Signal { container, signal, .. } => self.signals.push((container, signal)),
            Action::RemoveContainer { container, attempt } => {
                assert!(!self.live.contains(&(container.clone(), attempt)), "a live container is removed");
                self.removed.push((container, attempt));
            }
            Action::SetTimer { at } => self.timer = Some(at),
            Action::Done(outcome) => {
                assert!(self.live.is_empty() && !self.sandbox && !self.volumes, "done before all is gone");
                self.done = Some(outcome);
            }
            Action::StartContainer { ref container, attempt, .. } => {
                assert!(self.sandbox && self.volumes, "a container without its pod");
                let twice = self.live.iter().any(|(name, _)| name == container);
                assert!(!twice, "two attempts of {container} at once");
                self.live.insert((container.clone(), attempt));
                self.open.push(action);
            }
            Action::RemoveSandbox => {
                assert!(self.live.is_empty(), "the sandbox is removed under live containers");
                self.open.push(action);
            }
            Action::RunSandbox => {
                self.sandbox = true;
                self.open.push(action);
            }
            Action::MountVolumes => {
                self.volumes = true;
                self.open.push(action);
            }
            other => self.open.push(other),
        }
    }

    /// The answer that a healthy node gives.
    pub fn good_answer(&self, action: &Action) -> Event {
        match action.clone() {
            Action::MountVolumes => Event::VolumesReady,
            Action::RemoveVolumes => Event::VolumesRemoved,
            Action::RunSandbox => Event::SandboxReady { ip: Some("10.1.0.2".parse().unwrap()) },
            Action::RemoveSandbox => Event::SandboxRemoved,
            Action::CheckImage { container, .. } => {
                Event::ImageChecked { container, image_id: Some("sha256:1".into()) }
            }
            Action::PullImage { container, .. } => Event::ImagePulled { container, image_id: "sha256:1".into() },
            Action::StartContainer { container, attempt, .. } => Event::Started { container, attempt, at: self.wall() },
            Action::ResizeContainer { container, attempt, .. } => Event::Resized { container, attempt, result: Ok(()) },
            Action::Probe { container, attempt, kind, .. } => {
                Event::Probed { container, attempt, kind, result: Ok(()) }
            }
            Action::RunHook { container, attempt, hook, .. } => {
                Event::HookFinished { container, attempt, hook, result: Ok(()) }
            }
            other => panic!("{other:?} has no answer"),
        }
    }

    /// The answer of a node where everything fails.
    pub fn bad_answer(&self, action: &Action) -> Event {
        let message = "broken".to_owned();
        match action.clone() {
            Action::MountVolumes => Event::VolumesFailed { message },
            Action::RemoveVolumes => Event::VolumesRemoveFailed { message },
            Action::RunSandbox => Event::SandboxFailed { message },
            Action::RemoveSandbox => Event::SandboxRemoveFailed { message },
            Action::CheckImage { container, .. } => Event::ImageChecked { container, image_id: None },
            Action::PullImage { container, .. } => Event::PullFailed { container, message },
            Action::StartContainer { container, attempt, .. } => {
                let failure = match attempt % 3 {
                    0 => StartFailure::Run(self.exit(128)),
                    1 => StartFailure::Config(message),
                    _ => StartFailure::Create(message),
                };
                Event::StartFailed { container, attempt, failure }
            }
            Action::ResizeContainer { container, attempt, .. } => {
                Event::Resized { container, attempt, result: Err(message) }
            }
            Action::Probe { container, attempt, kind, .. } => {
                Event::Probed { container, attempt, kind, result: Err(message) }
            }
            Action::RunHook { container, attempt, hook, .. } => {
                Event::HookFinished { container, attempt, hook, result: Err(message) }
            }
            other => panic!("{other:?} has no answer"),
        }
    }

    pub fn answer(&mut self, index: usize, good: bool) {
        let action = self.open.remove(index);
        match action {
            Action::RemoveSandbox if good => self.sandbox = false,
            Action::RemoveVolumes if good => self.volumes = false,
            _ => {}
        }
        let event = if good { self.good_answer(&action) } else { self.bad_answer(&action) };
        self.send(event);
    }

    /// Answers everything well until nothing is open.
    pub fn settle(&mut self) {
        while !self.open.is_empty() {
            self.answer(0, true);
        }
    }

    /// Refuses the one open action.
    pub fn refuse(&mut self) {
        assert_eq!(self.open.len(), 1, "{:?}", self.open);
        self.answer(0, false);
    }

    pub fn exit(&self, code: i32) -> Exit {
        Exit {
            code,
            signal: None,
            reason: String::new(),
            message: String::new(),
            started_at: None,
            finished_at: self.wall(),
        }
    }

    /// The newest attempt of a container ends.
    pub fn ends(&mut self, container: &str, code: i32) {
        let (_, attempt) = self.live.iter().find(|(name, _)| name == container).expect("it runs").clone();
        let exit = self.exit(code);
        self.send(Event::Exited { container: container.into(), attempt, exit });
    }

    pub fn stop(&mut self, cause: StopCause, grace: u64) {
        self.send(Event::Stop { cause, grace: Duration::from_secs(grace) });
    }

    /// Lets time pass until the timer that is set goes off; returns how long that took.
    pub fn pass(&mut self) -> Duration {
        let at = self.timer.take().expect("a timer is set");
        let passed = at.saturating_sub(self.now);
        self.now = self.now.max(at);
        self.send(Event::Timer);
        passed
    }

    pub fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    pub fn container(&self, name: &str) -> &ContainerStatus {
        let init = self.status.init_container_statuses.iter().flatten();
        init.chain(self.status.container_statuses.iter().flatten()).find(|status| status.name == name).unwrap()
    }

    /// Reason and message of a waiting container.
    pub fn waiting(&self, name: &str) -> (String, String) {
        let waiting = self.container(name).state.clone().and_then(|state| state.waiting).unwrap_or_default();
        (waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default())
    }

    /// Exit code and reason of a terminated container.
    pub fn terminated(&self, name: &str) -> Option<(i32, String)> {
        let terminated = self.container(name).state.clone()?.terminated?;
        Some((terminated.exit_code, terminated.reason.unwrap_or_default()))
    }

    pub fn is_running(&self, name: &str) -> bool {
        self.container(name).state.as_ref().is_some_and(|state| state.running.is_some())
    }

    pub fn condition(&self, kind: &str) -> PodCondition {
        self.status.conditions.iter().flatten().find(|one| one.type_ == kind).cloned().unwrap_or_default()
    }

    pub fn has_event(&self, reason: &str) -> bool {
        self.events.iter().any(|(known, _)| *known == reason)
    }
}

/// What must hold between any two statuses of one pod.
fn check_succession(old: &PodStatus, new: &PodStatus) {
    if let Some("Succeeded" | "Failed") = old.phase.as_deref() {
        assert_eq!(old.phase, new.phase, "a terminal phase changed");
    }
    let counts = |status: &PodStatus| -> Vec<i32> {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten()).map(|one| one.restart_count).collect()
    };
    for (old, new) in counts(old).into_iter().zip(counts(new)) {
        assert!(old <= new, "a restart count fell from {old} to {new}");
    }
}
