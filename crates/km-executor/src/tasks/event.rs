//! What the tasks are told, and what they want done.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use km_mesos_proto::v1;
use km_pod::{Allotment, Outcome, StopCause};

use crate::{
    api::{PodChange, PodKey},
    binding::BindFailure,
};

#[derive(Debug)]
pub enum Event {
    Launch(Box<v1::TaskInfo>),
    /// `grace`: the framework's kill policy.
    Kill {
        task: String,
        grace: Option<Duration>,
    },
    Message(Vec<u8>),
    /// The agent wants us to end, is away for too long, or the process is told to stop.
    Shutdown,
    /// Answer to [`Action::Bind`].
    Bound {
        task: String,
        result: Result<Box<Pod>, BindFailure>,
    },
    /// From the watch of this node's pods.
    Pod(PodChange),
    /// The pod's phase became Running.
    Running {
        task: String,
        status: Box<PodStatus>,
    },
    /// The pod ended, nothing of it is left, and its last status is durable.
    Ended {
        task: String,
        outcome: Outcome,
    },
    Timer,
}

#[derive(Debug, PartialEq)]
pub enum Action {
    Bind {
        task: String,
        pod: Box<Pod>,
    },
    StartPod {
        task: String,
        pod: Box<Pod>,
        /// What the task holds.
        allotment: Allotment,
    },
    UpdatePod {
        uid: String,
        pod: Box<Pod>,
    },
    /// `grace`: until SIGKILL; none: the pod's own.
    StopPod {
        uid: String,
        cause: StopCause,
        grace: Option<Duration>,
    },
    /// To Mesos (uuid, time and ids are added on the way).
    Send(Box<v1::TaskStatus>),
    /// Delete the pod from the API server, then send the status, if there is one.
    DeletePod {
        key: PodKey,
        then: Option<Box<v1::TaskStatus>>,
    },
    /// Nobody can ask for that ended pod's logs any more.
    ForgetPod {
        uid: String,
    },
    SetTimer {
        at: Duration,
    },
    /// End the process; everything is stopped.
    Exit {
        why: &'static str,
    },
}
