//! The private protocol between the embedded master and the embedded agents.
//!
//! Apache Mesos speaks libprocess here, which is no part of the v1 API. Ours is HTTP from agent to master:
//!
//! - `POST` to [`CONNECT_PATH`], whose body is one record, an `AgentMessage::Register` (unframed). The answer is 200
//!   with the header [`LINK_ID_HEADER`] and an endless body of RecordIO records, each a `MasterMessage`. A new link of
//!   the same agent id closes the older one.
//! - `POST` to [`MESSAGE_PATH`] with the same header, whose body is one record, any other `AgentMessage` (unframed).
//!   The agent sends them in order, one at a time. The answer is 202, or 403 when the link id is not the agent's
//!   current one: then the agent connects anew.
//!
//! Records are JSON of these enums; Mesos messages inside them are base64 of their protobuf. Messages may be lost when
//! the connection breaks and may be repeated after it: both sides treat them as idempotent, by task id and status uuid.

pub(crate) mod codec;

use km_mesos_proto::v1;
use serde::{Deserialize, Serialize};

pub use codec::LinkError;

/// Where an agent opens its link.
pub const CONNECT_PATH: &str = "/km/v1/agent";
/// Where an agent sends all messages but the first.
pub const MESSAGE_PATH: &str = "/km/v1/agent/message";
/// The header by which the master names a link in its answer, and the agent every message of it.
pub const LINK_ID_HEADER: &str = "km-link-id";

/// What an agent tells its master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
// Registrations are rare and short-lived: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum AgentMessage {
    /// First message of every connection. With `info.id` set it is a re-registration: the agent lists all that it
    /// still holds, and the master answers `Registered` with the same id, or `Refused` when the id is gone for ever.
    Register {
        #[serde(with = "codec::proto")]
        info: v1::AgentInfo,
        /// What reservations and volumes made of `info.resources`; empty when they made nothing of it.
        #[serde(default, with = "codec::protos")]
        resources: Vec<v1::Resource>,
        version: String,
        #[serde(with = "codec::protos")]
        frameworks: Vec<v1::FrameworkInfo>,
        #[serde(with = "codec::proto_pairs")]
        executors: Vec<(v1::FrameworkId, v1::ExecutorInfo)>,
        /// Tasks whose terminal update is not acknowledged yet, or that are not terminal, with their newest state in
        /// `state` and the newest unacknowledged update in `status_update_state` and `status_update_uuid`.
        #[serde(with = "codec::protos")]
        tasks: Vec<v1::Task>,
        /// Operations whose last status is not acknowledged yet.
        #[serde(default, with = "codec::protos")]
        operations: Vec<v1::Operation>,
    },
    /// A task status to forward to the framework. `latest_state` is the newest state the agent knows (it may be ahead).
    /// Repeated (10 s, doubling up to 10 min) until acknowledged; at most one per task is in flight.
    Update {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        status: v1::TaskStatus,
        #[serde(with = "codec::task_state")]
        latest_state: v1::TaskState,
    },
    /// The newest status of an operation that its framework gave an id to. Repeated as `Update` is.
    OperationUpdate {
        #[serde(with = "codec::proto")]
        operation: v1::Operation,
    },
    /// A message of an executor to its scheduler.
    FrameworkMessage {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        executor_id: v1::ExecutorId,
        #[serde(with = "codec::bytes")]
        data: Vec<u8>,
    },
    /// An executor ended; `status` is the wait status (exit code * 256, or signal).
    ExecutorExited {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        executor_id: v1::ExecutorId,
        status: i32,
    },
    /// Answer to `Ping`.
    Pong,
    /// The agent goes away for good and has killed everything (SIGUSR1 of Mesos).
    Unregister,
}

/// What the master tells an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
// Launches are moved once on their way to the wire.
#[allow(clippy::large_enum_variant)]
pub enum MasterMessage {
    /// The agent's id (new or confirmed) and the pings it may expect: silence for `ping_timeout_ms` means reconnect.
    Registered {
        #[serde(with = "codec::proto")]
        agent_id: v1::AgentId,
        ping_timeout_ms: u64,
    },
    /// The agent must kill everything and end (marked gone, or its machine is down).
    Refused {
        message: String,
    },
    Ping,
    /// Launch tasks of one framework, in order, each alone. The executor of a task is in `TaskInfo.executor`, or the
    /// task has a command and the agent runs it by its command executor.
    RunTasks {
        #[serde(with = "codec::proto")]
        framework: v1::FrameworkInfo,
        #[serde(with = "codec::protos")]
        tasks: Vec<v1::TaskInfo>,
    },
    /// Launch a task group on one executor: all or nothing.
    RunTaskGroup {
        #[serde(with = "codec::proto")]
        framework: v1::FrameworkInfo,
        #[serde(with = "codec::proto")]
        executor: v1::ExecutorInfo,
        #[serde(with = "codec::proto")]
        group: v1::TaskGroupInfo,
    },
    KillTask {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        task_id: v1::TaskId,
        #[serde(with = "codec::optional_proto")]
        kill_policy: Option<v1::KillPolicy>,
    },
    ShutdownExecutor {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        executor_id: v1::ExecutorId,
    },
    /// The framework is gone: end all its executors.
    ShutdownFramework {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
    },
    /// The scheduler acknowledged an update.
    Acknowledge {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        task_id: v1::TaskId,
        #[serde(with = "codec::bytes")]
        uuid: Vec<u8>,
    },
    FrameworkMessage {
        #[serde(with = "codec::proto")]
        framework_id: v1::FrameworkId,
        #[serde(with = "codec::proto")]
        executor_id: v1::ExecutorId,
        #[serde(with = "codec::bytes")]
        data: Vec<u8>,
    },
    /// The framework changed: new failover address, name or capabilities.
    UpdateFramework {
        #[serde(with = "codec::proto")]
        framework: v1::FrameworkInfo,
    },
    /// End all tasks, take no new ones, until nothing is left.
    Drain {
        #[serde(with = "codec::proto")]
        config: v1::DrainConfig,
    },
    /// RESERVE, UNRESERVE, CREATE or DESTROY changed what the agent's resources look like; the agent checkpoints it.
    CheckpointResources {
        #[serde(with = "codec::protos")]
        resources: Vec<v1::Resource>,
    },
    /// The same by an operation whose framework wants to hear of its end. Done once, known by the operation's uuid.
    ApplyOperation {
        #[serde(with = "codec::proto")]
        operation: v1::Operation,
        #[serde(with = "codec::protos")]
        resources: Vec<v1::Resource>,
    },
    /// The framework acknowledged an operation's status.
    AcknowledgeOperation {
        #[serde(with = "codec::bytes")]
        operation_uuid: Vec<u8>,
        #[serde(with = "codec::bytes")]
        status_uuid: Vec<u8>,
    },
}
