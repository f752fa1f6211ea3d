//! What can happen, and to whom it is brought.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use km_mesos_core::{
    link::{AgentMessage, MasterMessage},
    master::ConnectionId,
};
use km_mesos_proto::v1;
use km_scheduler::core::{Action, ApiReply, CallOutcome, FrameworkAnswer};

use crate::{faults::Fault, operators::Operation};
use km_fakeapi::Change;

/// Something on its way.
pub(crate) enum Delivery {
    MasterTick,
    AgentTick(usize),
    SchedulerTick(usize),
    MasterStarts,
    AgentStarts(usize),
    ApiUp,
    /// A scheduler's process starts; it doesn't lead yet.
    SchedulerStarts(usize),
    Work,
    Fault(Fault),
    Operation(Operation),
    /// Time for the controller of volumes.
    Bind,
    /// Time for the operators to change what the framework is.
    Reconfigure,
    /// The operator gives an agent up for good.
    MarkGone(String),
    /// On a connection with the master: lost when that broke before.
    OnWire(ConnectionId, Wire),
    /// The end of a connection, seen by the master.
    MasterSawEnd(ConnectionId),
    /// The end of a connection, seen by the other side.
    Closed(ConnectionId),
    Scheduler(usize, u64, ToScheduler),
    Rival(usize, ToRival),
    Executor(usize, String, ToExecutor),
    /// A container's process starts.
    ProcessStarts(usize, String),
    /// A container without an executor ends.
    ProcessEnds(usize, String, i32),
}

/// What the sender of a call wants to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nothing,
    /// What became of that ACCEPT.
    Accept(u64),
    /// The same of that UPDATE_FRAMEWORK.
    Update(u64),
}

/// Messages between the master and others.
pub(crate) enum Wire {
    /// A scheduler or rival subscribes.
    Subscribe(Box<v1::scheduler::call::Subscribe>),
    /// A call of a scheduler or rival.
    Call(Box<v1::scheduler::Call>, Reply),
    ToFramework(Box<v1::scheduler::Event>),
    /// An agent opens a link.
    Register(usize, Box<AgentMessage>),
    ToMaster(Box<AgentMessage>),
    ToAgent(Box<MasterMessage>),
}

/// For one process of the scheduler; lost when that ended.
pub(crate) enum ToScheduler {
    /// Time to take or renew the Lease.
    Elect,
    Subscribe,
    AcceptResult(u64, CallOutcome),
    FrameworkAnswer(u64, FrameworkAnswer),
    /// The subscription is to end, and another to begin.
    Resubscribe(ConnectionId),
    /// Time to ask the operator API for the agents.
    PollAgents(ConnectionId),
    Watch(u64, Change),
    /// The watch of that number goes on.
    Resume(u64),
    Operation(Box<Action>),
    Reply(u64, Box<ApiReply>),
}

pub(crate) enum ToRival {
    Subscribe,
    /// Time to decide on an offer.
    Decide(Box<v1::Offer>),
    /// Time to end one of its tasks.
    Kill(String),
}

/// For an executor; lost when that ended.
pub(crate) enum ToExecutor {
    Subscribe,
    FromAgent(u64, Box<v1::executor::Event>),
    StreamClosed(u64),
    /// A call arrives at the agent.
    Call(Box<v1::executor::Call>),
    /// The first of the updates that wait is to be sent (again).
    Deliver,
    /// A try to bind a task's pod.
    Bind(String, Box<Pod>),
    Bound(String, Result<Box<Pod>, km_executor::BindFailure>),
    Watch(u64, Change),
    /// The watch of that number lists anew.
    Relist(u64),
    /// An answer to a pod's machine.
    Machine(String, Box<km_pod::Event>),
    PodTimer(String, Duration),
    /// A try to write the newest status of a pod.
    WriteStatus(String),
    /// A try to delete a pod, after which the status is sent.
    DeletePod(km_executor::api::PodKey, Option<Box<v1::TaskStatus>>),
    /// Time to see to the Node.
    Register,
}
