//! What the agent's core is told, and what it wants done.

use km_mesos_proto::v1::{self, executor};

use super::volumes::Mount;
use crate::link::{AgentMessage, MasterMessage};

/// Something that happened.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "events are moved once, and most are messages")]
pub enum Event {
    /// The shell listens and has reported (as `Exited`) those recovered containers that are gone. Comes once.
    Start,
    /// A deadline passed (see `Agent::next_deadline`). Harmless when none did.
    Tick,
    /// A message on the link of that number. May come late, from a link that was replaced.
    Master { link: u64, message: MasterMessage },
    /// The link of that number could not be opened, or broke.
    LinkClosed { link: u64, reason: String },
    /// An executor's SUBSCRIBE that passed `Agent::check`; `connection` names its stream and never repeats.
    Subscribe { connection: u64, call: executor::Call },
    /// Any other call of an executor that passed `Agent::check`.
    ExecutorCall(executor::Call),
    /// An executor's stream broke, or was closed on demand.
    StreamClosed { connection: u64 },
    /// A container's process runs.
    Launched { container: String, pid: u32 },
    /// A container could not be started; `message` says why. Nothing of it runs.
    LaunchFailed { container: String, message: String },
    /// A container ended and none of its processes is left. `status` is the wait status, unknown for a container that
    /// was started by an earlier process of the agent. Each `Launch` ends in exactly one of `LaunchFailed` and `Exited`.
    Exited { container: String, status: Option<i32> },
    /// The agent shall end for good: kill everything, unregister.
    Shutdown,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open the link of that number with that first message, and forget the older one.
    Connect { link: u64, register: Box<AgentMessage> },
    /// Close the link.
    Disconnect,
    /// Send on the open link, after all that was sent before. Lost when the link breaks.
    Send(Box<AgentMessage>),
    /// Send an event on an executor's stream. Dropped when that is closed.
    SendEvent { connection: u64, event: Box<executor::Event> },
    /// Close an executor's stream after what was sent on it.
    CloseStream { connection: u64 },
    /// Prepare the sandbox, fetch, and start a process; report `Launched` or `LaunchFailed`.
    Launch(Box<Launch>),
    /// Ask a container's processes to end (SIGTERM).
    Signal { container: String },
    /// End a container with all its processes (SIGKILL), also one that is still being launched.
    Destroy { container: String },
    /// Make a volume's directory, if it is not there yet.
    MakeVolume { path: String },
    /// Remove a volume's data: its directory, or what is in it when the directory is a disk of its own.
    ClearVolume { path: String },
    /// Let a volume appear in a sandbox.
    LinkVolume(Mount),
    /// Let it disappear there; its data stay.
    UnlinkVolume { link: String },
    /// Replace the file at that path below the checkpoint directory, atomically and durably.
    Write { path: String, content: Vec<u8> },
    /// Remove the file or directory at that path below the checkpoint directory (empty: all of it), if it is there.
    Remove { path: String },
    /// The agent is done: nothing runs any more. No action follows.
    End { reason: String },
}

/// A process to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    pub container: String,
    pub framework_id: String,
    pub executor_id: String,
    /// The directory to create and to start in; an absolute path.
    pub sandbox: String,
    pub command: v1::CommandInfo,
    /// To be set over the environment that the shell gives every process.
    pub environment: Vec<(String, String)>,
    /// The user to become, when the agent may.
    pub user: Option<String>,
    /// Persistent volumes to appear in the sandbox.
    pub volumes: Vec<Mount>,
}

/// Why an executor's call is not taken: the HTTP status and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}
