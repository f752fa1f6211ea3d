//! What can go wrong between a client and a server.

use std::time::Duration;

use km_mesos_proto::recordio;

use crate::{Authority, address::AddressError, environment::EnvironmentError};

/// Why a call or a stream failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The master's address is unusable.
    #[error("bad master address: {0}")]
    Address(#[from] AddressError),
    /// The file that names the masters can't be read.
    #[error("can't read the master address from {path}: {reason}")]
    AddressFile {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// ZooKeeper names no leading master.
    #[error("no master leads: {0}")]
    NoLeader(String),
    /// The executor's environment is unusable.
    #[error("bad executor environment: {0}")]
    Environment(#[from] EnvironmentError),
    /// The client itself can't be set up, or a credential can't be sent.
    #[error("can't set up the HTTP client: {0}")]
    Setup(String),
    /// No connection: the server has seen nothing of the request.
    #[error("can't connect to {server}: {reason}")]
    Connect {
        /// Who was called.
        server: Authority,
        /// The system's words.
        reason: String,
    },
    /// The connection broke in the middle: the server may or may not have acted.
    #[error("the exchange with {server} was interrupted: {reason}")]
    Interrupted {
        /// Who was called.
        server: Authority,
        /// The system's words.
        reason: String,
    },
    /// The server answered with an error.
    #[error("{server} answered {status}: {body}")]
    Status {
        /// Who was called.
        server: Authority,
        /// HTTP status.
        status: u16,
        /// The reason, in plain text.
        body: String,
    },
    /// The server sent us on, but not to a usable place, or in circles.
    #[error("{server} redirected to nowhere: {reason}")]
    Redirect {
        /// Who was called.
        server: Authority,
        /// What is wrong with it.
        reason: String,
    },
    /// Time is up.
    #[error("gave up after {} ms{}", .after.as_millis(), .last.as_ref().map(|last| format!(": {last}")).unwrap_or_default())]
    Deadline {
        /// How long it was tried.
        after: Duration,
        /// The last failure, if an attempt ended.
        last: Option<Box<Self>>,
        /// Was an attempt still under way?
        unresolved: bool,
    },
    /// The stream lost its frame.
    #[error("broken event stream: {0}")]
    Frame(#[from] recordio::Error),
    /// A message of the server is malformed.
    #[error("malformed answer: {0}")]
    Decode(String),
    /// The server closed the event stream.
    #[error("the event stream was closed")]
    Closed,
    /// Nothing came for so long that the connection must be dead.
    #[error("no event for {} ms, {missed} heartbeats were missed", .silence.as_millis())]
    HeartbeatsMissed {
        /// How long there was silence.
        silence: Duration,
        /// How many heartbeats fit in it.
        missed: u32,
    },
    /// The master refused the subscription. Trying the same again won't help.
    #[error("the subscription was refused: {0}")]
    Refused(String),
}

impl ClientError {
    /// The HTTP status, if the server answered with an error.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Deadline { last, .. } => last.as_ref()?.status(),
            _ => None,
        }
    }

    /// Can the request have had an effect although it failed?
    pub fn may_have_had_effect(&self) -> bool {
        match self {
            Self::Interrupted { .. } | Self::Decode(_) => true,
            // An attempt that hadn't ended when time was up may have arrived.
            Self::Deadline { last, unresolved, .. } => {
                *unresolved || last.as_ref().is_some_and(|last| last.may_have_had_effect())
            }
            _ => false,
        }
    }
}
