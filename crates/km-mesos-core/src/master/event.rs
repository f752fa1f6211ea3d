//! What goes into the master and what comes out of it.

use std::time::Duration;

use km_mesos_proto::v1::{self, scheduler};

use super::RegistryChange;
use crate::link::{AgentMessage, MasterMessage};

/// A stream that the shell holds open: a scheduler's, an operator's or an agent's. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What happens to the master. Events of one connection arrive in order; those of several in any order.
#[derive(Clone, Debug)]
pub enum Event {
    /// Some deadline of [`super::Master::next_deadline`] has passed. Harmless when none has.
    Tick,
    /// A checked SUBSCRIBE of a scheduler on a new connection. `stream_id` is the value of `Mesos-Stream-Id`.
    Subscribe {
        connection: ConnectionId,
        stream_id: String,
        principal: Option<String>,
        subscribe: Box<scheduler::call::Subscribe>,
    },
    /// Any other call of a scheduler; it has passed [`super::validation::call`]. Gives one `Action::Answer`.
    SchedulerCall { stream_id: Option<String>, principal: Option<String>, call: Box<scheduler::Call> },
    /// An operator's call other than SUBSCRIBE. Gives one `Action::Answer`.
    OperatorCall { principal: Option<String>, call: Box<v1::master::Call> },
    /// An operator's SUBSCRIBE on a new connection.
    OperatorSubscribe { connection: ConnectionId },
    /// A message of an agent; `Register` opens the agent's connection.
    /// `ip` is where the agent connects from: other clients reach it there.
    Agent { connection: ConnectionId, ip: String, message: Box<AgentMessage> },
    /// The other side of a stream is gone. Ignored when the master closed it itself.
    Disconnected { connection: ConnectionId },
}

/// What the shell must do, in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// The answer to the request that is being handled.
    Answer(Answer),
    /// Sends an event to a scheduler. Lost when the stream breaks; schedulers reconcile.
    ToScheduler { connection: ConnectionId, event: Box<scheduler::Event> },
    /// Sends an event to an operator's stream.
    ToOperator { connection: ConnectionId, event: Box<v1::master::Event> },
    /// Sends a message to an agent. Lost when the stream breaks; agents re-register.
    ToAgent { connection: ConnectionId, message: Box<MasterMessage> },
    /// Closes a stream after all that was sent on it before.
    Close(ConnectionId),
    /// Writes a change of the registry to disk before any later action is carried out.
    Persist(RegistryChange),
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    pub body: Body,
}

/// The body of an [`Answer`].
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Empty,
    /// Plain text with the reason of a failure.
    Text(String),
    /// An operator call's response.
    Response(Box<v1::master::Response>),
}

impl Answer {
    /// 202 without a body.
    pub fn accepted() -> Self {
        Self { status: 202, body: Body::Empty }
    }

    /// 200 without a body.
    pub fn ok() -> Self {
        Self { status: 200, body: Body::Empty }
    }

    /// A refusal with its reason.
    pub fn refused(status: u16, reason: impl Into<String>) -> Self {
        Self { status, body: Body::Text(reason.into()) }
    }

    /// 200 with an operator response.
    pub fn response(response: v1::master::Response) -> Self {
        Self { status: 200, body: Body::Response(Box::new(response)) }
    }
}

/// What the core waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The next allocation over all agents.
    Batch,
    Heartbeat(ConnectionId),
    /// A disconnected framework's `failover_timeout`; the number tells its disconnections apart.
    Failover(String, u64),
    /// Time to ping an agent, or to give it up.
    Ping(String),
    /// An agent known from before the start of this master did not come back.
    AgentReturn(String),
    OfferTimeout(String),
    /// Time to forget agents that are lost for long.
    RegistryGc,
}

/// Seconds since the epoch as Mesos writes timestamps.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// A point in time as a Mesos message.
pub(super) fn time_info(time: Duration) -> v1::TimeInfo {
    v1::TimeInfo { nanoseconds: i64::try_from(time.as_nanos()).unwrap_or(i64::MAX) }
}
