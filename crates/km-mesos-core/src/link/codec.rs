//! How link messages are written as records: JSON, with every Mesos message inside as base64 of its protobuf.
//!
//! JSON keeps the records readable in a trace and lets fields be added; protobuf inside keeps the Mesos messages exact
//! (unknown fields aside) without a second mapping of them.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use serde::{Deserialize, Deserializer, Serializer, de::DeserializeOwned, de::Error as _};

use super::{AgentMessage, MasterMessage};

/// A record that is no link message.
#[derive(Debug, thiserror::Error)]
#[error("not a link message: {0}")]
pub struct LinkError(#[from] serde_json::Error);

macro_rules! record {
    ($message:ty) => {
        impl $message {
            /// The message as the bytes of one record.
            pub fn to_record(&self) -> Vec<u8> {
                // Serialising fails only for maps with keys that are no text, and there are none.
                serde_json::to_vec(self).unwrap_or_default()
            }

            /// Reads the bytes of one record.
            pub fn from_record(record: &[u8]) -> Result<Self, LinkError> {
                Ok(read(record)?)
            }
        }
    };
}
record!(AgentMessage);
record!(MasterMessage);

fn read<T: DeserializeOwned>(record: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(record)
}

fn encode(message: &impl Message) -> String {
    STANDARD.encode(message.encode_to_vec())
}

fn decode<M: Message + Default, E: serde::de::Error>(text: &str) -> Result<M, E> {
    M::decode(bytes_of::<E>(text)?.as_slice()).map_err(E::custom)
}

fn bytes_of<E: serde::de::Error>(text: &str) -> Result<Vec<u8>, E> {
    STANDARD.decode(text).map_err(E::custom)
}

/// `#[serde(with)]` for one Mesos message.
pub(crate) mod proto {
    use super::*;

    pub fn serialize<S: Serializer>(message: &impl Message, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(message))
    }

    pub fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(deserializer: D) -> Result<M, D::Error> {
        decode(&String::deserialize(deserializer)?)
    }
}

/// `#[serde(with)]` for a list of Mesos messages.
pub(crate) mod protos {
    use super::*;

    pub fn serialize<S: Serializer>(messages: &[impl Message], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(messages.iter().map(encode))
    }

    pub fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<M>, D::Error> {
        Vec::<String>::deserialize(deserializer)?.iter().map(|text| decode(text)).collect()
    }
}

/// `#[serde(with)]` for a list of pairs of Mesos messages.
pub(crate) mod proto_pairs {
    use super::*;

    pub fn serialize<S: Serializer, A: Message, B: Message>(
        pairs: &[(A, B)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|(a, b)| (encode(a), encode(b))))
    }

    pub fn deserialize<'de, A, B, D>(deserializer: D) -> Result<Vec<(A, B)>, D::Error>
    where
        A: Message + Default,
        B: Message + Default,
        D: Deserializer<'de>,
    {
        let texts = Vec::<(String, String)>::deserialize(deserializer)?;
        texts.iter().map(|(a, b)| Ok((decode(a)?, decode(b)?))).collect()
    }
}

/// `#[serde(with)]` for a Mesos message that may be absent.
pub(crate) mod optional_proto {
    use super::*;

    pub fn serialize<S: Serializer>(message: &Option<impl Message>, serializer: S) -> Result<S::Ok, S::Error> {
        match message {
            Some(message) => serializer.serialize_some(&encode(message)),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<M>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|text| decode(&text)).transpose()
    }
}

/// `#[serde(with)]` for plain bytes.
pub(crate) mod bytes {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        bytes_of(&String::deserialize(deserializer)?)
    }
}

/// `#[serde(with)]` for a task state, by its Mesos name.
pub(crate) mod task_state {
    use km_mesos_proto::v1::TaskState;

    use super::*;

    pub fn serialize<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(state.as_str_name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskState, D::Error> {
        let name = String::deserialize(deserializer)?;
        TaskState::from_str_name(&name).ok_or_else(|| D::Error::custom(format!("no task state is called {name}")))
    }
}

#[cfg(test)]
mod tests {
    use km_mesos_proto::v1;

    use super::*;

    fn framework_id() -> v1::FrameworkId {
        v1::FrameworkId { value: "f".to_owned() }
    }

    fn executor_id() -> v1::ExecutorId {
        v1::ExecutorId { value: "e".to_owned() }
    }

    fn task_id() -> v1::TaskId {
        v1::TaskId { value: "t".to_owned() }
    }

    #[test]
    fn agent_messages_come_back_as_they_were() {
        let framework = v1::FrameworkInfo { name: "n".to_owned(), ..Default::default() };
        let executor = v1::ExecutorInfo { executor_id: executor_id(), ..Default::default() };
        let task = v1::Task { name: "task".to_owned(), task_id: task_id(), ..Default::default() };
        let messages = [
            AgentMessage::Register {
                info: v1::AgentInfo { hostname: "h".to_owned(), ..Default::default() },
                resources: vec![v1::Resource::default()],
                version: "1".to_owned(),
                frameworks: vec![framework],
                executors: vec![(framework_id(), executor)],
                tasks: vec![task],
                operations: vec![v1::Operation::default()],
            },
            AgentMessage::OperationUpdate { operation: v1::Operation::default() },
            AgentMessage::Update {
                framework_id: framework_id(),
                status: v1::TaskStatus { task_id: task_id(), ..Default::default() },
                latest_state: v1::TaskState::TaskRunning,
            },
            AgentMessage::FrameworkMessage {
                framework_id: framework_id(),
                executor_id: executor_id(),
                data: vec![0, 255, 10],
            },
            AgentMessage::ExecutorExited { framework_id: framework_id(), executor_id: executor_id(), status: 256 },
            AgentMessage::Pong,
            AgentMessage::Unregister,
        ];
        for message in messages {
            assert_eq!(AgentMessage::from_record(&message.to_record()).unwrap(), message);
        }
    }

    #[test]
    fn master_messages_come_back_as_they_were() {
        let framework = v1::FrameworkInfo { name: "n".to_owned(), ..Default::default() };
        let task = v1::TaskInfo { task_id: task_id(), ..Default::default() };
        let messages = [
            MasterMessage::Registered { agent_id: v1::AgentId { value: "a".to_owned() }, ping_timeout_ms: 75_000 },
            MasterMessage::Refused { message: "gone".to_owned() },
            MasterMessage::Ping,
            MasterMessage::RunTasks { framework: framework.clone(), tasks: vec![task.clone()] },
            MasterMessage::RunTaskGroup {
                framework: framework.clone(),
                executor: v1::ExecutorInfo { executor_id: executor_id(), ..Default::default() },
                group: v1::TaskGroupInfo { tasks: vec![task] },
            },
            MasterMessage::KillTask { framework_id: framework_id(), task_id: task_id(), kill_policy: None },
            MasterMessage::KillTask {
                framework_id: framework_id(),
                task_id: task_id(),
                kill_policy: Some(v1::KillPolicy::default()),
            },
            MasterMessage::ShutdownExecutor { framework_id: framework_id(), executor_id: executor_id() },
            MasterMessage::ShutdownFramework { framework_id: framework_id() },
            MasterMessage::Acknowledge { framework_id: framework_id(), task_id: task_id(), uuid: vec![7; 16] },
            MasterMessage::FrameworkMessage { framework_id: framework_id(), executor_id: executor_id(), data: vec![] },
            MasterMessage::UpdateFramework { framework },
            MasterMessage::CheckpointResources { resources: vec![v1::Resource::default()] },
            MasterMessage::ApplyOperation {
                operation: v1::Operation::default(),
                resources: vec![v1::Resource::default()],
            },
            MasterMessage::AcknowledgeOperation { operation_uuid: vec![7; 16], status_uuid: vec![8; 16] },
        ];
        for message in messages {
            assert_eq!(MasterMessage::from_record(&message.to_record()).unwrap(), message);
        }
    }

    #[test]
    fn a_damaged_record_is_refused() {
        for record in
            [r#"{"type":"dance"}"#, r#"{"type":"refused"}"#, r#"{"type":"acknowledge","framework_id":"!"}"#, ""]
        {
            assert!(MasterMessage::from_record(record.as_bytes()).is_err(), "{record}");
        }
    }
}
