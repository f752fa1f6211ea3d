//! What goes into a pod's machine and what comes out.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::{
    api::core::v1::{LifecycleHandler, Pod, PodStatus, Probe, ResourceRequirements},
    jiff::Timestamp,
};

/// A point in time on both clocks: deadlines follow the monotonic one, statuses show the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since an arbitrary start; never goes back.
    pub mono: Duration,
    pub wall: Timestamp,
}

/// The id of one attempt to run a container: unique for ever as long as a pod UID is.
pub fn container_id(pod_uid: &str, container: &str, attempt: u32) -> String {
    format!("{pod_uid}-{container}-{attempt}")
}

/// Something happened. Answers to actions may come late, twice or in any order: what doesn't fit the state is ignored.
#[derive(Clone, Debug)]
pub enum Event {
    /// Begin to run the pod. Once; repeats are harmless.
    Start,
    /// The pod's object changed in the API server.
    Updated(Box<Pod>),
    /// Answers to [`Action::MountVolumes`].
    VolumesReady,
    VolumesFailed {
        message: String,
    },
    /// Answers to [`Action::RemoveVolumes`].
    VolumesRemoved,
    VolumesRemoveFailed {
        message: String,
    },
    /// Answers to [`Action::RunSandbox`]. `ip` is the pod's address (the node's with the host's network).
    SandboxReady {
        ip: Option<IpAddr>,
    },
    SandboxFailed {
        message: String,
    },
    /// The same when trying again is of no use: the pod fails with that reason.
    SandboxRefused {
        reason: &'static str,
        message: String,
    },
    /// Answers to [`Action::RemoveSandbox`].
    SandboxRemoved,
    SandboxRemoveFailed {
        message: String,
    },
    /// Answers to [`Action::CheckImage`]: the image's id when it is on this node.
    ImageChecked {
        container: String,
        image_id: Option<String>,
    },
    /// Answers to [`Action::PullImage`] (and a failed check).
    ImagePulled {
        container: String,
        image_id: String,
    },
    PullFailed {
        container: String,
        message: String,
    },
    /// Answers to [`Action::StartContainer`].
    Started {
        container: String,
        attempt: u32,
        at: Timestamp,
    },
    StartFailed {
        container: String,
        attempt: u32,
        failure: StartFailure,
    },
    /// Answer to [`Action::ResizeContainer`]; the error says what stood in the way.
    Resized {
        container: String,
        attempt: u32,
        result: Result<(), String>,
    },
    /// A container's process ended.
    Exited {
        container: String,
        attempt: u32,
        exit: Exit,
    },
    /// Answer to [`Action::Probe`]; the error says what was wrong.
    Probed {
        container: String,
        attempt: u32,
        kind: ProbeKind,
        result: Result<(), String>,
    },
    /// Answer to [`Action::RunHook`].
    HookFinished {
        container: String,
        attempt: u32,
        hook: Hook,
        result: Result<(), String>,
    },
    /// End the pod: `grace` from now until SIGKILL. Repeats may only shorten the grace.
    Stop {
        cause: StopCause,
        grace: Duration,
    },
    /// The time asked for with [`Action::SetTimer`] has come. Spurious ones are harmless.
    Timer,
}

/// Why a pod is stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Its object has a deletion timestamp.
    Deleted,
    /// Its object is gone from the API server.
    Gone,
    /// Mesos asked to kill the task.
    Killed,
    /// The executor ends.
    Shutdown,
}

/// Why a container could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// A config map, secret or key that it needs is not there (yet): tried again, not counted as a restart.
    Config(String),
    /// The runtime made no container: tried again, not counted as a restart.
    Create(String),
    /// The container was made but its process could not run: counts as a run that failed.
    Run(Exit),
}

/// How a container's run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    pub signal: Option<i32>,
    /// As the runtime names it: `OOMKilled`, `ContainerCannotRun`; empty: by the code.
    pub reason: String,
    pub message: String,
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

impl ProbeKind {
    /// As events spell it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    PostStart,
    PreStop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Normal,
    Warning,
}

/// What the shell is to do. Everything is asked for once and answered by the event named in [`Event`].
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    MountVolumes,
    RemoveVolumes,
    RunSandbox,
    /// Kill what still runs in the sandbox, keep the logs, remove the rest.
    RemoveSandbox,
    CheckImage {
        container: String,
        image: String,
    },
    PullImage {
        container: String,
        image: String,
    },
    StartContainer {
        container: String,
        attempt: u32,
        image: String,
    },
    /// Other limits for a running attempt.
    ResizeContainer {
        container: String,
        attempt: u32,
        resources: Box<ResourceRequirements>,
    },
    /// To the container's first process. No answer; an exit comes as [`Event::Exited`].
    Signal {
        container: String,
        attempt: u32,
        signal: i32,
    },
    /// An older attempt whose log nobody can ask for any more. No answer.
    RemoveContainer {
        container: String,
        attempt: u32,
    },
    Probe {
        container: String,
        attempt: u32,
        kind: ProbeKind,
        probe: Box<Probe>,
    },
    RunHook {
        container: String,
        attempt: u32,
        hook: Hook,
        handler: Box<LifecycleHandler>,
    },
    /// The pod's whole status. Only the newest one matters; but one with a terminal phase must become durable before
    /// the shell acts on [`Action::Done`].
    PublishStatus(Box<PodStatus>),
    /// A Kubernetes event. `container`: about that container, else about the pod.
    Event {
        level: Level,
        reason: &'static str,
        message: String,
        container: Option<String>,
    },
    /// Send [`Event::Timer`] at that monotonic time. Replaces the timer set before.
    SetTimer {
        at: Duration,
    },
    /// Everything of the pod is stopped and removed. The last action.
    Done(Outcome),
}

/// How a pod ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its containers ended well.
    Succeeded,
    /// It failed by itself; the text says why.
    Failed { message: String },
    /// It was stopped from outside.
    Stopped(StopCause),
}
