//! How frameworks hear of operations that they gave an id to.
//!
//! The agent tells the end of an operation until the framework acknowledged it; the master remembers it as long, for
//! those who ask.

use km_mesos_proto::v1::{
    self, OperationState, OperationStatus,
    offer::Operation,
    scheduler::{self, call, event},
};

use super::{Master, calls};
use crate::link::MasterMessage;

impl Master {
    /// Notes an operation that begins.
    pub(super) fn track_operation(&mut self, agent: &str, framework: &str, info: Operation) -> v1::Operation {
        let agent_id = v1::AgentId { value: agent.to_owned() };
        let status = OperationStatus {
            operation_id: info.id.clone(),
            state: OperationState::OperationPending as i32,
            agent_id: Some(agent_id.clone()),
            ..OperationStatus::default()
        };
        let operation = v1::Operation {
            framework_id: Some(calls::framework_id(framework)),
            agent_id: Some(agent_id),
            info,
            latest_status: status,
            statuses: Vec::new(),
            uuid: v1::Uuid { value: self.next_uuid() },
        };
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.operations.insert(operation.uuid.value.clone(), operation.clone());
        }
        operation
    }

    /// The master's own uuid with a number: unique, as every run of the master has another uuid.
    fn next_uuid(&mut self) -> Vec<u8> {
        self.next_operation += 1;
        let mut bytes = [0; 16];
        for (place, letter) in self.config.info.id.bytes().filter(u8::is_ascii_hexdigit).enumerate().take(32) {
            let digit = char::from(letter).to_digit(16).unwrap_or_default() as u8;
            bytes[place / 2] |= digit << (4 * (1 - place % 2));
        }
        for (byte, number) in bytes.iter_mut().rev().zip(self.next_operation.to_le_bytes()).take(7) {
            *byte ^= number;
        }
        bytes.to_vec()
    }

    /// Refuses an operation. Its framework hears of it if it gave it an id.
    pub(super) fn refuse_operation(&mut self, framework: &str, operation: &Operation, message: String) {
        self.counters.count_operation(operation, "total");
        self.counters.count_operation(operation, "error");
        let Some(id) = operation.id.clone() else { return };
        let status = OperationStatus {
            operation_id: Some(id),
            state: OperationState::OperationError as i32,
            message: Some(message),
            ..OperationStatus::default()
        };
        self.send_operation_status(framework, status);
    }

    fn send_operation_status(&mut self, framework: &str, status: OperationStatus) {
        let update = event::UpdateOperationStatus { status };
        let event = scheduler::Event { update_operation_status: Some(update), ..Default::default() };
        self.tell_framework(framework, event::Type::UpdateOperationStatus, event);
    }

    /// An agent tells how an operation ended, perhaps not for the first time.
    pub(super) fn agent_operation(&mut self, agent_id: &str, told: v1::Operation) {
        self.counters.count("messages_operation_status_update");
        let framework = told.framework_id.as_ref().map(|id| id.value.clone()).unwrap_or_default();
        let (uuid, status) = (told.uuid.value.clone(), told.latest_status.clone());
        if !self.frameworks.contains_key(&framework) && self.recovered.is_empty() {
            // Nobody is left to acknowledge it.
            self.counters.count("invalid_operation_status_updates");
            self.forget_operation(agent_id, &uuid, &status);
            return;
        }
        self.counters.count("valid_operation_status_updates");
        let Some(agent) = self.agents.get_mut(agent_id) else { return };
        let known = agent.operations.get(&uuid).is_some_and(|known| known.latest_status.uuid == status.uuid);
        if !known {
            self.counters.count_operation(&told.info, "finished");
            agent.operations.insert(uuid, told);
        }
        self.send_operation_status(&framework, status);
    }

    /// The framework has seen the end of an operation.
    pub(super) fn acknowledge_operation(&mut self, framework: &str, acknowledge: call::AcknowledgeOperationStatus) {
        self.counters.count("messages_operation_status_update_acknowledgement");
        let agent_id = acknowledge.agent_id.map(|id| id.value).unwrap_or_default();
        let agent = self.agents.get(&agent_id).filter(|agent| agent.connected());
        let found = agent.and_then(|agent| {
            agent.operations.values().find(|operation| {
                let status = operation.latest_status.uuid.as_ref().map(|uuid| uuid.value.as_slice());
                of_framework(operation, framework)
                    && operation.info.id.as_ref() == Some(&acknowledge.operation_id)
                    && status == Some(acknowledge.uuid.as_slice())
            })
        });
        let Some((uuid, status)) = found.map(|one| (one.uuid.value.clone(), one.latest_status.clone())) else {
            self.counters.count("invalid_operation_status_update_acknowledgements");
            tracing::debug!(framework, agent = agent_id, "acknowledgement of an unknown operation's status: dropped");
            return;
        };
        self.counters.count("valid_operation_status_update_acknowledgements");
        self.forget_operation(&agent_id, &uuid, &status);
    }

    /// Both sides forget an operation whose end is acknowledged.
    fn forget_operation(&mut self, agent_id: &str, uuid: &[u8], status: &OperationStatus) {
        if let Some(agent) = self.agents.get_mut(agent_id) {
            agent.operations.remove(uuid);
        }
        let status_uuid = status.uuid.as_ref().map(|uuid| uuid.value.clone()).unwrap_or_default();
        let message = MasterMessage::AcknowledgeOperation { operation_uuid: uuid.to_vec(), status_uuid };
        self.tell_agent(agent_id, message);
    }

    /// The framework is gone: nobody will acknowledge its operations.
    pub(super) fn forget_operations_of(&mut self, framework: &str) {
        let own = |agent: &super::agent::Agent| {
            let own = agent.operations.values().filter(|operation| of_framework(operation, framework)).cloned();
            own.map(|operation| (agent.id.clone(), operation)).collect::<Vec<_>>()
        };
        for (agent, operation) in self.agents.values().flat_map(own).collect::<Vec<_>>() {
            self.forget_operation(&agent, &operation.uuid.value, &operation.latest_status);
        }
    }

    /// What an agent brings along is what there is: what it never got is dropped.
    pub(super) fn merge_operations(&mut self, agent_id: &str, listed: Vec<v1::Operation>) {
        let Some(agent) = self.agents.get_mut(agent_id) else { return };
        let listed = listed.into_iter().map(|operation| (operation.uuid.value.clone(), operation)).collect();
        let before = std::mem::replace(&mut agent.operations, listed);
        let lost: Vec<v1::Operation> =
            before.into_iter().filter(|(uuid, _)| !agent.operations.contains_key(uuid)).map(|(_, one)| one).collect();
        for operation in lost {
            if operation.latest_status.state == OperationState::OperationPending as i32 {
                self.end_operation(operation, OperationState::OperationDropped, "Operation is unknown to the agent");
            }
        }
    }

    /// The agent is lost: so is what it would have told.
    pub(super) fn lose_operations(&mut self, agent_id: &str, state: OperationState, message: &str) {
        let Some(agent) = self.agents.get_mut(agent_id) else { return };
        for operation in std::mem::take(&mut agent.operations).into_values() {
            self.end_operation(operation, state, message);
        }
    }

    fn end_operation(&mut self, operation: v1::Operation, state: OperationState, message: &str) {
        let name = state.as_str_name().trim_start_matches("OPERATION_").to_lowercase();
        self.counters.count_operation(&operation.info, &name);
        let framework = operation.framework_id.map(|id| id.value).unwrap_or_default();
        let status = OperationStatus {
            operation_id: operation.info.id,
            state: state as i32,
            message: Some(message.to_owned()),
            agent_id: operation.agent_id,
            ..OperationStatus::default()
        };
        self.send_operation_status(&framework, status);
    }

    /// Answers an empty list with every operation that has an id, and a named one with the best that is known.
    pub(super) fn reconcile_operations(&mut self, framework: &str, asked: Vec<call::reconcile_operations::Operation>) {
        self.counters.count("messages_reconcile_operations");
        let own = |id: Option<&v1::OperationId>| {
            let all = self.agents.values().flat_map(|agent| agent.operations.values());
            let own = all.filter(|operation| of_framework(operation, framework));
            let wanted = own.filter(|operation| id.is_none() || operation.info.id.as_ref() == id);
            wanted
                .map(|operation| OperationStatus { uuid: None, ..operation.latest_status.clone() })
                .collect::<Vec<_>>()
        };
        let answers: Vec<OperationStatus> = if asked.is_empty() {
            own(None)
        } else {
            asked
                .into_iter()
                .map(|one| own(Some(&one.operation_id)).pop().unwrap_or_else(|| self.unknown(one)))
                .collect()
        };
        for status in answers {
            self.send_operation_status(framework, status);
        }
    }

    fn unknown(&self, asked: call::reconcile_operations::Operation) -> OperationStatus {
        use OperationState::*;
        let (state, what) = match asked.agent_id.as_ref().map(|id| id.value.as_str()) {
            Some(id) if self.agents.contains_key(id) && asked.resource_provider_id.is_some() => (OperationUnknown, ""),
            None => (OperationUnknown, "Operation is unknown and no 'agent_id' was provided"),
            Some(id) if self.agents.contains_key(id) => (OperationUnknown, "Operation is unknown"),
            Some(id) if self.recovered.contains_key(id) => {
                (OperationRecovering, "Agent is recovered but has not re-registered")
            }
            Some(id) if self.unreachable.contains_key(id) => (OperationUnreachable, "Agent is unreachable"),
            Some(id) if self.gone.contains_key(id) => (OperationGoneByOperator, "Agent marked gone by operator"),
            Some(_) => (OperationUnknown, "Both operation and agent are unknown"),
        };
        OperationStatus {
            operation_id: Some(asked.operation_id),
            state: state as i32,
            message: (!what.is_empty()).then(|| format!("Reconciliation: {what}")),
            agent_id: asked.agent_id,
            resource_provider_id: asked.resource_provider_id,
            ..OperationStatus::default()
        }
    }
}

fn of_framework(operation: &v1::Operation, framework: &str) -> bool {
    operation.framework_id.as_ref().is_some_and(|id| id.value == framework)
}
