//! The machine of one pod.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, PodStatus},
    jiff::Timestamp,
};

use crate::{
    allotment::Allotment,
    backoff::Backoff,
    container::Unit,
    event::{Action, Event, Level, Moment, StartFailure, StopCause},
    plan,
    stopping::Stop,
};

/// Something the pod needs once: its volumes, its sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Part {
    #[default]
    Absent,
    Making,
    Ready,
    /// Making or removing failed; tried again then.
    Failed {
        until: Duration,
    },
    Removing,
}

/// The life of one pod, from its launch until everything of it is gone.
#[derive(Clone, Debug)]
pub struct PodMachine {
    pub(crate) pod: Pod,
    pub(crate) units: Vec<Unit>,
    pub(crate) started: bool,
    pub(crate) volumes: Part,
    pub(crate) volumes_backoff: Backoff,
    pub(crate) sandbox: Part,
    pub(crate) sandbox_backoff: Backoff,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) host_ip: Option<IpAddr>,
    pub(crate) stop: Option<Stop>,
    pub(crate) start_time: Option<Timestamp>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) conditions: Vec<PodCondition>,
    /// Set when the phase is terminal; from then on the status' phase, reason and message stay.
    pub(crate) terminal: Option<&'static str>,
    pub(crate) verdict: Option<(String, String)>,
    pub(crate) done: bool,
    /// What its task holds; absent where nobody counts.
    pub(crate) allotment: Option<Allotment>,
    /// Why the resources that its object asks for were not granted.
    pub(crate) refusal: Option<String>,
    published: Option<PodStatus>,
    timer: Option<Duration>,
}

impl PodMachine {
    /// A machine at rest; [`Event::Start`] sets it going. `host_ip` is the node's address.
    pub fn new(pod: Pod, host_ip: Option<IpAddr>) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let units = plan::containers(&spec)
            .into_iter()
            .map(|(role, container)| {
                let restart = plan::restart_policy(&spec, &container, role);
                Unit::new(role, container, restart)
            })
            .collect();
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        Self {
            pod,
            units,
            started: false,
            volumes: Part::Absent,
            volumes_backoff: Backoff::default(),
            sandbox: Part::Absent,
            sandbox_backoff: Backoff::default(),
            ip: None,
            host_ip,
            stop: None,
            start_time: None,
            deadline: None,
            conditions,
            terminal: None,
            verdict: None,
            done: false,
            allotment: None,
            refusal: None,
            published: None,
            timer: None,
        }
    }

    /// Holds the pod to what its task holds.
    pub fn within(self, allotment: Option<Allotment>) -> Self {
        Self { allotment, ..self }
    }

    /// The pod, with the resources that it was granted.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// The newest status that was asked to be published.
    pub fn status(&self) -> Option<&PodStatus> {
        self.published.as_ref()
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn spec(&self) -> &PodSpec {
        // A pod without a spec has no containers either; the API server lets none through.
        static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
        self.pod.spec.as_ref().unwrap_or(&EMPTY)
    }

    /// How long its containers may take to end.
    pub fn grace(&self) -> Duration {
        let seconds = self.spec().termination_grace_period_seconds.unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(1))
    }

    /// Takes in what happened and says what to do. `now` never goes back.
    pub fn handle(&mut self, now: Moment, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        if self.done {
            return out;
        }
        self.take(now, event, &mut out);
        if self.started {
            self.advance(now, &mut out);
        }
        let finished = self.finished();
        self.publish(now, &mut out);
        if let Some(outcome) = finished {
            self.done = true;
            out.push(Action::Done(outcome));
        } else {
            self.set_timer(now, &mut out);
        }
        out
    }

    fn take(&mut self, now: Moment, event: Event, out: &mut Vec<Action>) {
        let pod = plan::pod_ref(&self.pod);
        let grace = self.grace();
        match event {
            Event::Start => self.begin(now, out),
            Event::Updated(pod) => self.update(now, *pod, out),
            Event::VolumesReady => self.part_made(|machine| &mut machine.volumes),
            Event::VolumesFailed { message } if self.volumes == Part::Making => {
                self.volumes = Part::Failed { until: now.mono + self.volumes_backoff.grow(now.mono) };
                pod_event(out, Level::Warning, "FailedMount", message);
            }
            Event::VolumesRemoved if self.volumes == Part::Removing => self.volumes = Part::Absent,
            Event::VolumesRemoveFailed { message } if self.volumes == Part::Removing => {
                self.volumes = Part::Failed { until: now.mono + self.volumes_backoff.grow(now.mono) };
                pod_event(out, Level::Warning, "FailedUnmount", message);
            }
            Event::SandboxReady { ip } if self.sandbox == Part::Making => {
                self.sandbox = Part::Ready;
                self.ip = ip;
            }
            Event::SandboxFailed { message } if self.sandbox == Part::Making => {
                self.sandbox = Part::Failed { until: now.mono + self.sandbox_backoff.grow(now.mono) };
                pod_event(out, Level::Warning, "FailedCreatePodSandBox", message);
            }
            Event::SandboxRefused { reason, message } if self.sandbox == Part::Making => {
                self.sandbox = Part::Failed { until: now.mono };
                self.give_up(now, reason, message, out);
            }
            Event::SandboxRemoved if self.sandbox == Part::Removing => self.sandbox_gone(),
            Event::SandboxRemoveFailed { message } if self.sandbox == Part::Removing => {
                self.sandbox = Part::Failed { until: now.mono + self.sandbox_backoff.grow(now.mono) };
                pod_event(out, Level::Warning, "FailedKillPod", message);
            }
            Event::ImageChecked { container, image_id } => {
                self.unit(&container, |unit| unit.image_checked(now, image_id, out));
            }
            Event::ImagePulled { container, image_id } => {
                self.unit(&container, |unit| unit.image_pulled(now, image_id, out));
            }
            Event::PullFailed { container, message } => {
                self.unit(&container, |unit| unit.pull_failed(now, message, out));
            }
            Event::Started { container, attempt, at } => {
                self.unit(&container, |unit| unit.started(now, attempt, at, out));
            }
            Event::StartFailed { container, attempt, failure } => self.unit(&container, |unit| match failure {
                _ if attempt != unit.attempt => {}
                StartFailure::Config(message) => {
                    unit.not_started(now, "CreateContainerConfigError", message, out);
                }
                StartFailure::Create(message) => unit.not_started(now, "CreateContainerError", message, out),
                StartFailure::Run(exit) => unit.exited(now, attempt, exit, &pod, out),
            }),
            Event::Exited { container, attempt, exit } => {
                self.unit(&container, |unit| unit.exited(now, attempt, exit, &pod, out));
            }
            Event::Resized { container, attempt, result } => {
                self.unit(&container, |unit| unit.resized(now, attempt, result, out));
            }
            Event::Probed { container, attempt, kind, result } => {
                self.unit(&container, |unit| unit.probed(now, (attempt, kind), result, grace, out));
            }
            Event::HookFinished { container, attempt, hook, result } => {
                self.unit(&container, |unit| unit.hook_finished(now, attempt, hook, result, grace, out));
            }
            Event::Stop { cause, grace } => self.stop_from_outside(now, cause, grace),
            _ => {}
        }
    }

    fn begin(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.started {
            return;
        }
        self.started = true;
        self.start_time = Some(now.wall);
        let limit = self.spec().active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        self.deadline = limit.map(|seconds| now.mono + Duration::from_secs(seconds));
        for (path, why) in crate::unsupported::list(self.spec()) {
            pod_event(out, Level::Warning, "Unsupported", format!("{path}: {why}"));
        }
    }

    fn part_made(&mut self, part: impl Fn(&mut Self) -> &mut Part) {
        let part = part(self);
        if *part == Part::Making {
            *part = Part::Ready;
        }
    }

    fn unit(&mut self, name: &str, change: impl FnOnce(&mut Unit)) {
        if let Some(unit) = self.units.iter_mut().find(|unit| unit.spec.name == name) {
            change(unit);
        }
    }

    /// Starts everything whose time has come.
    fn advance(&mut self, now: Moment, out: &mut Vec<Action>) {
        self.check_deadline(now, out);
        self.check_completion(now);
        if self.stop.is_some() {
            self.advance_stop(now, out);
            return;
        }
        if due(&self.volumes, now.mono) {
            self.volumes = Part::Making;
            out.push(Action::MountVolumes);
        }
        if self.volumes == Part::Ready && due(&self.sandbox, now.mono) {
            self.sandbox = Part::Making;
            out.push(Action::RunSandbox);
        }
        if self.sandbox == Part::Ready {
            self.advance_containers(now, out);
        }
    }

    pub(crate) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        let part = |part: &Part| match part {
            Part::Failed { until } => Some(*until),
            _ => None,
        };
        let own = [part(&self.volumes), part(&self.sandbox), self.deadline.filter(|_| self.stop.is_none())];
        let units = self.units.iter().filter_map(|unit| unit.deadline(now));
        // Sidecars that wait for the main containers to end have no deadline of their own yet.
        let live = self.units.iter().any(|unit| unit.is_running_unstopped());
        let kill = self.stop.as_ref().map(|stop| stop.kill_at).filter(|_| live);
        let units = units.chain(kill);
        own.into_iter().flatten().chain(units).min()
    }

    fn set_timer(&mut self, now: Moment, out: &mut Vec<Action>) {
        let wanted = self.next_deadline(now.mono);
        // One that has passed has gone off already: it must be set again even for the same time.
        let set = self.timer.filter(|at| *at > now.mono);
        if let Some(at) = wanted
            && wanted != set
        {
            self.timer = Some(at);
            out.push(Action::SetTimer { at });
        }
    }

    fn publish(&mut self, now: Moment, out: &mut Vec<Action>) {
        if !self.started && self.stop.is_none() {
            return;
        }
        let status = self.build_status(now);
        if self.published.as_ref() != Some(&status) {
            self.published = Some(status.clone());
            out.push(Action::PublishStatus(Box::new(status)));
        }
    }

    /// Whether somebody outside asked for the end, and why.
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.stop.as_ref().and_then(|stop| stop.cause)
    }
}

/// Whether a part is to be made now.
pub(crate) fn due(part: &Part, now: Duration) -> bool {
    match part {
        Part::Absent => true,
        Part::Failed { until } => *until <= now,
        _ => false,
    }
}

pub(crate) fn pod_event(out: &mut Vec<Action>, level: Level, reason: &'static str, message: String) {
    out.push(Action::Event { level, reason, message, container: None });
}
