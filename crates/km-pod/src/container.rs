//! One container of the pod: its present state, its past attempts and its back-offs.

mod probing;
mod resizing;
mod stop;
mod trouble;

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{Container, ResourceRequirements},
    jiff::Timestamp,
};
pub(crate) use resizing::Resize;
use trouble::ERROR_SHOWN;

use crate::{
    backoff::Backoff,
    event::{Action, Exit, Hook, Level, Moment, ProbeKind},
    plan::{PullPolicy, RestartPolicy, Role},
    probe::{Watch, watches},
};

pub(crate) const SIGTERM: i32 = 15;
pub(crate) const SIGKILL: i32 = 9;
/// A kill that showed no effect is repeated after this long.
const KILL_AGAIN: Duration = Duration::from_secs(10);

/// Where a container is between two attempts or in one.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Not its turn yet.
    Waiting,
    /// The runtime is asked for the image.
    Checking,
    Pulling,
    /// No image: tried again at `until`.
    NoImage {
        reason: &'static str,
        message: String,
        failed_at: Duration,
        until: Duration,
    },
    /// The start call is on its way.
    Starting,
    /// No container came of it: tried again at `until`.
    NotStarted {
        reason: &'static str,
        message: String,
        until: Duration,
    },
    Running(Box<Running>),
    /// The last attempt ended; `again` says when the next one starts.
    Exited {
        again: Option<Duration>,
    },
}

/// A running attempt.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub started_at: Timestamp,
    pub watches: Vec<Watch>,
    /// The post-start hook is done (or there is none).
    pub hook_done: bool,
    pub stop: Option<UnitStop>,
}

/// An attempt that is being stopped.
#[derive(Clone, Debug)]
pub(crate) struct UnitStop {
    pub kill_at: Duration,
    term_sent: bool,
    next_kill: Duration,
}

/// An attempt that ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub attempt: u32,
    pub exit: Exit,
}

/// A container with all its attempts.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub spec: Container,
    pub role: Role,
    pub restart: RestartPolicy,
    pub state: State,
    /// Number of the attempt that runs or comes next.
    pub attempt: u32,
    pub image_id: String,
    /// The last two attempts that ended, newest first.
    pub ended: Vec<Ended>,
    pub crash: Backoff,
    pub pull: Backoff,
    /// The image that the present attempt began with.
    begun_image: String,
    /// The resources that the present attempt runs with.
    pub applied: ResourceRequirements,
    pub resize: Resize,
    /// Its image or resources changed while it ran: start anew whatever the policy says.
    pub replaced: bool,
    /// It was started (in the sense of [`Unit::is_started`]) at least once.
    pub started_once: bool,
    /// Why the try before the present one made no container. Shown until one is there.
    trouble: Option<(&'static str, String)>,
}

impl Unit {
    pub fn new(role: Role, spec: Container, restart: RestartPolicy) -> Self {
        Self {
            spec,
            role,
            restart,
            state: State::Waiting,
            attempt: 0,
            image_id: String::new(),
            ended: Vec::new(),
            crash: Backoff::default(),
            pull: Backoff::default(),
            begun_image: String::new(),
            applied: ResourceRequirements::default(),
            resize: Resize::Idle,
            replaced: false,
            started_once: false,
            trouble: None,
        }
    }

    pub fn image(&self) -> String {
        self.spec.image.clone().unwrap_or_default()
    }

    /// The image changed since the present attempt began.
    pub fn is_outdated(&self) -> bool {
        self.begun_image != self.image()
    }

    /// The image that runs, or the one that is wanted.
    pub fn shown_image(&self) -> String {
        if self.is_live() { self.begun_image.clone() } else { self.image() }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Runs, and was not told to end yet.
    pub fn is_running_unstopped(&self) -> bool {
        matches!(&self.state, State::Running(run) if run.stop.is_none())
    }

    /// A process of it may exist.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Running(_) | State::Starting)
    }

    /// Ended, and no attempt follows.
    pub fn is_final(&self) -> bool {
        matches!(self.state, State::Exited { again: None })
    }

    pub fn succeeded(&self) -> bool {
        self.is_final() && self.ended.first().is_some_and(|ended| ended.exit.code == 0)
    }

    /// Its startup probe and post-start hook are through.
    pub fn is_started(&self) -> bool {
        match &self.state {
            State::Running(run) => {
                run.hook_done && run.watches.iter().all(|watch| watch.kind != ProbeKind::Startup || watch.passed)
            }
            _ => false,
        }
    }

    pub fn is_ready(&self) -> bool {
        match &self.state {
            State::Running(run) => {
                let probed = run.watches.iter().all(|watch| watch.kind != ProbeKind::Readiness || watch.passed);
                run.stop.is_none() && probed && self.is_started()
            }
            // An init container is ready once it has done its work.
            _ => self.role == Role::Init && self.succeeded(),
        }
    }

    fn event(&self, out: &mut Vec<Action>, level: Level, reason: &'static str, message: String) {
        out.push(Action::Event { level, reason, message, container: Some(self.spec.name.clone()) });
    }

    /// Begins the next attempt if its time has come.
    pub fn begin_when_due(&mut self, now: Moment, out: &mut Vec<Action>) {
        let due = match &self.state {
            State::Waiting => true,
            State::NoImage { until, .. } | State::NotStarted { until, .. } => *until <= now.mono,
            State::Exited { again: Some(again) } => *again <= now.mono,
            _ => false,
        };
        if due {
            self.trouble = self.trouble(now.mono);
            self.begin(out);
        }
    }

    fn begin(&mut self, out: &mut Vec<Action>) {
        self.state = State::Checking;
        self.begun_image = self.image();
        out.push(Action::CheckImage { container: self.spec.name.clone(), image: self.image() });
    }

    pub fn image_checked(&mut self, now: Moment, image_id: Option<String>, out: &mut Vec<Action>) {
        if !matches!(self.state, State::Checking) {
            return;
        }
        if self.is_outdated() {
            self.begin(out);
            return;
        }
        let image = self.image();
        match (PullPolicy::of(&self.spec), image_id) {
            (PullPolicy::Never, None) => {
                let message = format!("Container image {image:?} is not present with pull policy of Never");
                self.event(out, Level::Warning, "ErrImageNeverPull", message.clone());
                self.no_image(now, "ErrImageNeverPull", message);
            }
            (PullPolicy::Always, _) | (_, None) => {
                self.event(out, Level::Normal, "Pulling", format!("Pulling image {image:?}"));
                self.state = State::Pulling;
                out.push(Action::PullImage { container: self.spec.name.clone(), image });
            }
            (_, Some(id)) => {
                let message = format!("Container image {image:?} already present on machine");
                self.event(out, Level::Normal, "Pulled", message);
                self.start(now, id, out);
            }
        }
    }

    pub fn image_pulled(&mut self, now: Moment, image_id: String, out: &mut Vec<Action>) {
        if matches!(self.state, State::Pulling) && self.is_outdated() {
            self.begin(out);
        } else if matches!(self.state, State::Pulling) {
            self.event(out, Level::Normal, "Pulled", format!("Successfully pulled image {:?}", self.image()));
            self.start(now, image_id, out);
        }
    }

    pub fn pull_failed(&mut self, now: Moment, message: String, out: &mut Vec<Action>) {
        if matches!(self.state, State::Pulling | State::Checking) && self.is_outdated() {
            self.begin(out);
        } else if matches!(self.state, State::Pulling | State::Checking) {
            self.event(out, Level::Warning, "Failed", format!("Failed to pull image {:?}: {message}", self.image()));
            self.event(out, Level::Warning, "Failed", "Error: ErrImagePull".into());
            self.no_image(now, "ErrImagePull", message);
        }
    }

    fn no_image(&mut self, now: Moment, reason: &'static str, message: String) {
        let until = now.mono + self.pull.grow(now.mono);
        self.state = State::NoImage { reason, message, failed_at: now.mono, until };
    }

    fn start(&mut self, now: Moment, image_id: String, out: &mut Vec<Action>) {
        self.pull.reset();
        self.image_id = image_id;
        if !self.ended.is_empty() {
            self.crash.grow(now.mono);
        }
        // The previous attempt stays for `logs --previous`; the one before goes.
        while self.ended.len() > 1 {
            if let Some(old) = self.ended.pop() {
                out.push(Action::RemoveContainer { container: self.spec.name.clone(), attempt: old.attempt });
            }
        }
        self.state = State::Starting;
        self.applied = self.granted();
        self.resize = Resize::Idle;
        out.push(Action::StartContainer {
            container: self.spec.name.clone(),
            attempt: self.attempt,
            image: self.image(),
        });
    }

    pub fn started(&mut self, now: Moment, attempt: u32, at: Timestamp, out: &mut Vec<Action>) {
        if !matches!(self.state, State::Starting) || attempt != self.attempt {
            return;
        }
        self.event(out, Level::Normal, "Started", format!("Container {} started", self.spec.name));
        let hook = self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.clone());
        let hook = hook.filter(crate::unsupported::hook_is_supported);
        self.state = State::Running(Box::new(Running {
            started_at: at,
            watches: watches(&self.spec, now.mono),
            hook_done: hook.is_none(),
            stop: None,
        }));
        if let Some(handler) = hook {
            let container = self.spec.name.clone();
            out.push(Action::RunHook { container, attempt, hook: Hook::PostStart, handler: Box::new(handler) });
        }
    }

    /// A container that could not be made: later again.
    pub fn not_started(&mut self, now: Moment, reason: &'static str, message: String, out: &mut Vec<Action>) {
        if !matches!(self.state, State::Starting) {
            return;
        }
        const RETRY: Duration = Duration::from_secs(5);
        self.event(out, Level::Warning, "Failed", format!("Error: {message}"));
        self.state = State::NotStarted { reason, message, until: now.mono + RETRY };
    }

    /// The attempt's end. Decides whether and when another follows.
    pub fn exited(&mut self, now: Moment, attempt: u32, mut exit: Exit, pod: &str, out: &mut Vec<Action>) {
        if !self.is_live() || attempt != self.attempt {
            return;
        }
        exit.reason = match (exit.reason.as_str(), exit.code) {
            ("ContainerCannotRun", _) => "StartError".into(),
            ("" | "Error" | "Completed", 0) => "Completed".into(),
            ("" | "Completed", _) => "Error".into(),
            (given, _) => given.into(),
        };
        if let State::Running(run) = &self.state {
            exit.started_at = exit.started_at.or(Some(run.started_at));
        }
        if exit.reason == "StartError" {
            self.event(out, Level::Warning, "Failed", format!("Error: {}", exit.message));
        }
        let code = exit.code;
        self.ended.insert(0, Ended { attempt, exit });
        self.attempt += 1;
        let again = (self.restart.restarts(code) || self.replaced).then(|| {
            let delay = if self.replaced { None } else { self.crash.delay(now.mono) };
            if delay.is_some() {
                let message = format!("Back-off restarting failed container {} in pod {pod}", self.spec.name);
                self.event(out, Level::Warning, "BackOff", message);
            }
            now.mono + delay.unwrap_or_default()
        });
        self.replaced = false;
        self.state = State::Exited { again };
    }

    /// A stop of the whole pod came: nothing that isn't running shall start.
    pub fn settle(&mut self) {
        match self.state {
            State::Starting | State::Running(_) => {}
            _ if self.ended.is_empty() => self.state = State::Waiting,
            _ => self.state = State::Exited { again: None },
        }
    }

    /// When it wants to be looked at next, if only time is to pass.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        match &self.state {
            State::NoImage { failed_at, until, .. } => {
                let shown = *failed_at + ERROR_SHOWN;
                Some(if now < shown { shown.min(*until) } else { *until })
            }
            State::NotStarted { until, .. } => Some(*until),
            State::Exited { again } => *again,
            State::Running(run) => match &run.stop {
                Some(stop) => Some(stop.kill_at.max(stop.next_kill)),
                None => {
                    let started = self.is_started();
                    let turn = |watch: &&Watch| started || watch.kind == ProbeKind::Startup;
                    let probes = run.watches.iter().filter(turn).filter_map(Watch::due);
                    let resize = match self.resize {
                        Resize::Failed { until, .. } => Some(until),
                        _ => None,
                    };
                    probes.chain(resize).min()
                }
            },
            State::Waiting | State::Checking | State::Pulling | State::Starting => None,
        }
    }
}
