//! One task per pod: carries the machine's actions out and brings their results back.

mod archive;
mod exit;
mod probe;
mod publish;
mod services;
mod start;

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use km_pod::{Action, Allotment, Event, Outcome, PodMachine, StartFailure, container_id, downward::NodeFacts};
use km_podtask::messages;
use km_runtime::{Runtime, RuntimeError};
use tokio::sync::{mpsc, watch};

use crate::{
    api::{Api, PodKey},
    clock::Clock,
    events::Recorder,
    volumes::Volumes,
};
use publish::Publisher;
pub use publish::{OwnObject, Sink};

/// What all pods of the executor share.
pub struct Shared {
    pub runtime: Arc<dyn Runtime>,
    pub api: Arc<dyn Api>,
    pub recorder: Recorder,
    pub clock: Clock,
    pub facts: NodeFacts,
    pub host_ip: Option<IpAddr>,
    /// `<root>/<agent id>/pods`.
    pub pods_dir: PathBuf,
    pub dns: crate::dns::ClusterDns,
    /// Registry credentials beside those of pods, read at each pull; need not be there.
    pub dockercfg: PathBuf,
    pub http: reqwest::Client,
    /// Ask for changed config maps and secrets of volumes this often.
    pub refresh: Duration,
}

/// What a pod tells the executor.
#[derive(Debug)]
pub enum Report {
    Running {
        status: Box<PodStatus>,
    },
    /// Nothing of it is left and its last status is durable.
    Ended {
        outcome: Outcome,
    },
}

/// From outside to a pod's task.
#[derive(Debug)]
pub enum Input {
    Machine(Box<Event>),
    /// The runtime says that something happened to a container.
    Container(String),
    /// The last status got lost: write it again.
    Publish,
}

/// A running pod's other end.
#[derive(Clone)]
pub struct PodHandle {
    pub key: PodKey,
    pub input: mpsc::UnboundedSender<Input>,
    /// The pod with its newest status.
    pub view: watch::Receiver<Pod>,
    pub logs_dir: PathBuf,
}

impl PodHandle {
    /// Sends an event; a pod that has ended hears nothing any more.
    pub fn send(&self, event: Event) {
        if self.input.send(Input::Machine(Box::new(event))).is_err() {
            tracing::trace!(pod = self.key.name, "event for a pod that has ended");
        }
    }
}

/// Starts the pod. `report` hears of its phase and its end.
pub fn spawn(
    shared: Arc<Shared>,
    pod: Pod,
    allotment: Option<Allotment>,
    sink: Arc<dyn Sink>,
    report: impl Fn(Report) + Send + Sync + 'static,
) -> PodHandle {
    let key = PodKey::of(&pod);
    let (input, inputs) = mpsc::unbounded_channel();
    let (view_sender, view) = watch::channel(pod.clone());
    let dir = shared.pods_dir.join(&key.uid);
    let logs_dir = dir.join("logs");
    let publisher = Publisher::spawn(sink);
    let actor = Actor {
        machine: PodMachine::new(pod, shared.host_ip).within(allotment),
        volumes: Arc::new(Volumes::new(shared.api.clone(), shared.facts.clone(), key.clone(), dir.clone())),
        shared,
        key: key.clone(),
        dir,
        input: input.clone(),
        publisher,
        view: view_sender,
        ip: None,
        timer: None,
        running_reported: false,
        report: Box::new(report),
    };
    tokio::spawn(actor.run(inputs));
    PodHandle { key, input, view, logs_dir }
}

struct Actor {
    machine: PodMachine,
    volumes: Arc<Volumes>,
    shared: Arc<Shared>,
    key: PodKey,
    dir: PathBuf,
    input: mpsc::UnboundedSender<Input>,
    publisher: Publisher,
    view: watch::Sender<Pod>,
    ip: Option<IpAddr>,
    timer: Option<Duration>,
    running_reported: bool,
    report: Box<dyn Fn(Report) + Send + Sync>,
}

impl Actor {
    async fn run(mut self, mut inputs: mpsc::UnboundedReceiver<Input>) {
        let mut refresh = tokio::time::interval(self.shared.refresh);
        refresh.reset();
        let mut outcome = self.step(Event::Start);
        while outcome.is_none() {
            let clock = self.shared.clock;
            let timer = self.timer;
            let ring = async move {
                match timer {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(Input::Machine(event)) => {
                        if let Event::SandboxReady { ip } = &*event {
                            self.ip = *ip;
                        }
                        let updated = matches!(&*event, Event::Updated(_));
                        outcome = self.step(*event);
                        if updated {
                            self.show();
                            self.refresh_volumes();
                        }
                    }
                    Some(Input::Container(id)) => self.look_at(id),
                    Some(Input::Publish) => {
                        if let Some(status) = self.machine.status() {
                            self.publisher.publish(status.clone());
                        }
                    }
                    // Our own sender lives as long as we do.
                    None => break,
                },
                () = ring => {
                    self.timer = None;
                    outcome = self.step(Event::Timer);
                }
                _ = refresh.tick() => self.refresh_volumes(),
            }
        }
        if let Some(outcome) = outcome {
            self.publisher.flush().await;
            (self.report)(Report::Ended { outcome });
        }
    }

    /// One event through the machine; the pod's end, if it came to it.
    fn step(&mut self, event: Event) -> Option<Outcome> {
        let mut outcome = None;
        for action in self.machine.handle(self.shared.clock.moment(), event) {
            match action {
                Action::Done(end) => outcome = Some(end),
                Action::SetTimer { at } => self.timer = Some(at),
                Action::PublishStatus(status) => self.publish(*status),
                Action::Event { level, reason, message, container } => {
                    self.shared.recorder.pod(self.machine.pod(), level, reason, message, container);
                }
                other => self.carry_out(other),
            }
        }
        outcome
    }

    /// The pod as it is now, for those who ask the kubelet.
    fn show(&self) {
        let mut pod = self.machine.pod().clone();
        pod.status = self.machine.status().cloned();
        self.view.send_replace(pod);
    }

    fn publish(&mut self, status: PodStatus) {
        self.show();
        if status.phase.as_deref() == Some("Running") && !self.running_reported {
            self.running_reported = true;
            (self.report)(Report::Running { status: Box::new(status.clone()) });
        }
        self.publisher.publish(status);
    }

    /// Runs work whose result is an event.
    fn answer(&self, work: impl Future<Output = Event> + Send + 'static) {
        let input = self.input.clone();
        tokio::spawn(async move {
            let event = work.await;
            if input.send(Input::Machine(Box::new(event))).is_err() {
                tracing::trace!("answer for a pod that has ended");
            }
        });
    }

    fn carry_out(&self, action: Action) {
        let runtime = self.shared.runtime.clone();
        let uid = self.key.uid.clone();
        match action {
            Action::MountVolumes => {
                let (volumes, pod) = (self.volumes.clone(), self.machine.pod().clone());
                self.answer(async move {
                    match tokio::time::timeout(SLOW, volumes.mount(&pod)).await {
                        Ok(Ok(())) => Event::VolumesReady,
                        Ok(Err(error)) => Event::VolumesFailed { message: error.to_string() },
                        Err(_) => Event::VolumesFailed { message: "the API server gave no content in time".into() },
                    }
                });
            }
            Action::RemoveVolumes => {
                let volumes = self.volumes.clone();
                self.answer(async move {
                    match volumes.remove().await {
                        Ok(()) => Event::VolumesRemoved,
                        Err(error) => Event::VolumesRemoveFailed { message: error.to_string() },
                    }
                });
            }
            Action::RunSandbox => {
                let spec = start::sandbox_spec(self.machine.pod(), &self.shared);
                let host_ip = self.shared.host_ip;
                self.answer(async move {
                    match within(SLOW, runtime.run_sandbox(&spec)).await {
                        Ok(sandbox) => Event::SandboxReady { ip: sandbox.ip.or(host_ip) },
                        Err(RuntimeError::HostPortTaken { port, protocol }) => Event::SandboxRefused {
                            reason: messages::HOST_PORT_TAKEN,
                            message: messages::host_port_taken(port, protocol),
                        },
                        Err(error) => Event::SandboxFailed { message: error.to_string() },
                    }
                });
            }
            Action::RemoveSandbox => {
                let keep_logs = self.machine.stop_cause().is_none().then(|| self.dir.join("logs"));
                self.answer(async move {
                    if let Some(dir) = keep_logs {
                        archive::keep_logs(&*runtime, &uid, &dir).await;
                    }
                    match within(SLOW, runtime.remove_sandbox(&uid)).await {
                        Ok(()) => Event::SandboxRemoved,
                        Err(RuntimeError::NotFound { .. }) => Event::SandboxRemoved,
                        Err(error) => Event::SandboxRemoveFailed { message: error.to_string() },
                    }
                });
            }
            Action::CheckImage { container, image } => self.answer(async move {
                match within(QUICK, runtime.image(&image)).await {
                    Ok(info) => Event::ImageChecked { container, image_id: info.map(|info| info.id) },
                    Err(error) => Event::PullFailed { container, message: error.to_string() },
                }
            }),
            Action::PullImage { container, image } => {
                self.answer(start::pull(self.shared.clone(), self.machine.pod().clone(), container, image))
            }
            Action::StartContainer { container, attempt, image } => self.answer(start::start(
                start::Request {
                    shared: self.shared.clone(),
                    volumes: self.volumes.clone(),
                    pod: self.machine.pod().clone(),
                    ip: self.ip,
                    dir: self.dir.clone(),
                },
                container,
                attempt,
                image,
            )),
            Action::ResizeContainer { container, attempt, resources } => {
                let id = container_id(&uid, &container, attempt);
                let resources = start::resources(*resources);
                self.answer(async move {
                    let result = within(QUICK, runtime.update_container(&id, resources)).await;
                    Event::Resized { container, attempt, result: result.map_err(|error| error.to_string()) }
                });
            }
            Action::Signal { container, attempt, signal } => {
                let id = container_id(&uid, &container, attempt);
                let input = self.input.clone();
                tokio::spawn(async move {
                    if let Err(error) = within(QUICK, runtime.signal_container(&id, signal)).await {
                        tracing::warn!(container = id, %error, "signal not delivered");
                    }
                    // It may have ended already without our hearing of it.
                    if input.send(Input::Container(id)).is_err() {
                        tracing::trace!("signal for a pod that has ended");
                    }
                });
            }
            Action::RemoveContainer { container, attempt } => {
                let id = container_id(&uid, &container, attempt);
                tokio::spawn(async move {
                    if let Err(error) = within(QUICK, runtime.remove_container(&id)).await {
                        tracing::warn!(container = id, %error, "old container not removed; it goes with its pod");
                    }
                });
            }
            Action::Probe { container, attempt, kind, probe } => {
                let target = probe::Target::new(self.machine.pod(), &container, self.ip);
                let http = self.shared.http.clone();
                self.answer(async move {
                    let result = probe::probe(&http, &target, &probe).await;
                    Event::Probed { container, attempt, kind, result }
                });
            }
            Action::RunHook { container, attempt, hook, handler } => {
                let target = probe::Target::new(self.machine.pod(), &container, self.ip);
                let http = self.shared.http.clone();
                self.answer(async move {
                    let result = probe::hook(&http, &target, &handler).await;
                    Event::HookFinished { container, attempt, hook, result }
                });
            }
            Action::PublishStatus(_) | Action::Event { .. } | Action::SetTimer { .. } | Action::Done(_) => {}
        }
    }

    /// Asks the runtime how a container fares and hands on its end.
    fn look_at(&self, id: String) {
        let (runtime, input, dir) = (self.shared.runtime.clone(), self.input.clone(), self.dir.clone());
        let pod = self.machine.pod().clone();
        tokio::spawn(async move {
            if let Some(event) = exit::find(&*runtime, &pod, &dir, &id).await
                && input.send(Input::Machine(Box::new(event))).is_err()
            {
                tracing::trace!("end of a container of a pod that has ended");
            }
        });
    }

    fn refresh_volumes(&self) {
        if self.machine.stop_cause().is_some() {
            return;
        }
        let (volumes, pod) = (self.volumes.clone(), self.machine.pod().clone());
        tokio::spawn(async move {
            if let Err(error) = volumes.refresh(&pod).await {
                tracing::warn!(%error, "volumes keep their older content");
            }
        });
    }
}

/// Deadline of calls that only look or signal.
pub(crate) const QUICK: Duration = Duration::from_secs(30);
/// Deadline of calls that make or remove something.
pub(crate) const SLOW: Duration = Duration::from_secs(120);

/// Awaits a runtime call within a deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| {
        Err(RuntimeError::Other(format!("the runtime gave no answer within {} s", deadline.as_secs())))
    })
}

/// A start that failed before there was a container.
pub(crate) fn not_created(container: String, attempt: u32, message: String) -> Event {
    Event::StartFailed { container, attempt, failure: StartFailure::Create(message) }
}
