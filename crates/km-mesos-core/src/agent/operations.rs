//! Operations on the agent's resources whose framework wants to hear of their end.
//!
//! An operation is checkpointed with its end before the master hears of it, and told again after 10 s, doubling up to
//! 10 min, and at every new registration, until the framework acknowledged it.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1::{self, OperationState, OperationStatus, agent::response};
use serde::{Deserialize, Serialize};

use super::{
    Action, Agent,
    framework::record,
    paths,
    timers::Timer,
    updates::{FIRST_RETRY, LAST_RETRY},
};
use crate::link::{AgentMessage, codec};

/// An operation that ended and is not acknowledged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    #[serde(with = "codec::proto")]
    pub operation: v1::Operation,
    #[serde(skip)]
    retry: Option<Duration>,
}

impl Ended {
    /// What it goes by here: its uuid in hexadecimal digits.
    pub fn key(&self) -> String {
        key(&self.operation.uuid.value)
    }
}

fn key(uuid: &[u8]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) type Operations = BTreeMap<String, Ended>;

impl Agent {
    /// An operation that changed the resources. One that comes twice is known by its uuid.
    pub(super) fn apply_operation(&mut self, mut operation: v1::Operation, resources: Vec<v1::Resource>) {
        let key = key(&operation.uuid.value);
        if self.operations.contains_key(&key) {
            return;
        }
        self.checkpoint_resources(resources);
        let status = OperationStatus {
            operation_id: operation.info.id.clone(),
            state: OperationState::OperationFinished as i32,
            uuid: Some(v1::Uuid { value: self.uuid().to_vec() }),
            agent_id: Some(self.agent_id()),
            ..OperationStatus::default()
        };
        operation.latest_status = status.clone();
        operation.statuses.push(status);
        let ended = Ended { operation, retry: None };
        self.act(Action::Write { path: paths::operation(&key), content: record(&ended) });
        self.operations.insert(key.clone(), ended);
        self.tell_operation(&key);
    }

    /// Tells the master of an operation's end, and sets the time to say it again.
    pub(super) fn tell_operation(&mut self, key: &str) {
        if !self.link.is_registered() {
            return;
        }
        let Some(ended) = self.operations.get_mut(key) else { return };
        let retry = ended.retry.map_or(FIRST_RETRY, |last| (last * 2).min(LAST_RETRY));
        ended.retry = Some(retry);
        let operation = ended.operation.clone();
        self.timers.set(Timer::Operation(key.to_owned()), self.now + retry);
        self.send(AgentMessage::OperationUpdate { operation });
    }

    /// Starts over with all: there is a new master to tell.
    pub(super) fn tell_all_operations(&mut self) {
        for key in self.operations.keys().cloned().collect::<Vec<_>>() {
            if let Some(ended) = self.operations.get_mut(&key) {
                ended.retry = None;
            }
            self.tell_operation(&key);
        }
    }

    /// The framework has seen the end of an operation. An acknowledgement of another status is ignored.
    pub(super) fn acknowledge_operation(&mut self, operation_uuid: &[u8], status_uuid: &[u8]) {
        let key = key(operation_uuid);
        let status = self.operations.get(&key).and_then(|ended| ended.operation.latest_status.uuid.as_ref());
        if status.is_none_or(|uuid| uuid.value != status_uuid) {
            return;
        }
        self.operations.remove(&key);
        self.timers.cancel(&Timer::Operation(key.clone()));
        self.act(Action::Remove { path: paths::operation(&key) });
    }

    /// Operations as the master and operators see them.
    pub(super) fn ended_operations(&self) -> Vec<v1::Operation> {
        self.operations.values().map(|ended| ended.operation.clone()).collect()
    }

    pub fn get_operations(&self) -> response::GetOperations {
        response::GetOperations { operations: self.ended_operations() }
    }
}
