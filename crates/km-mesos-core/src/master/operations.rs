//! RESERVE, UNRESERVE, CREATE, DESTROY and the like: by frameworks on offers, by operators on agents.
//!
//! The embedded agent has nothing to do for them but to remember the result, so they take effect at once and end in
//! OPERATION_FINISHED without a uuid: there is nothing to acknowledge.

use km_mesos_proto::{
    resources::Resources,
    v1::{
        self, OperationState,
        framework_info::capability::Type as Capability,
        offer::{Operation, operation::Type},
        scheduler::{self, event},
    },
};

use super::{Master, accept::Pool, validation};
use crate::link::MasterMessage;

impl Master {
    /// An operation of a framework on accepted resources. One that fails is dropped.
    pub(super) fn convert(&mut self, pool: &mut Pool, operation: Operation) {
        let converted = self
            .check_operation(pool, &operation)
            .and_then(|()| pool.available.apply(&operation).map_err(|error| error.to_string()));
        match converted {
            Ok(after) => {
                let before = std::mem::replace(&mut pool.available, after);
                self.allocator.convert(&pool.framework, &pool.agent, &before, &pool.available);
                self.reshape_agent(&pool.agent, &before.unallocated(), &pool.available.unallocated());
                self.operation_status(
                    &pool.framework.clone(),
                    Some(&pool.agent),
                    &operation,
                    OperationState::OperationFinished,
                    None,
                );
            }
            Err(reason) => {
                tracing::warn!(framework = pool.framework, agent = pool.agent, reason, "operation dropped");
                let (framework, agent) = (pool.framework.clone(), pool.agent.clone());
                let state = OperationState::OperationError;
                self.operation_status(&framework, Some(&agent), &operation, state, Some(reason));
            }
        }
    }

    fn check_operation(&self, pool: &Pool, operation: &Operation) -> Result<(), String> {
        let (Some(framework), Some(agent)) = (self.frameworks.get(&pool.framework), self.agents.get(&pool.agent))
        else {
            return Err("The agent is gone".to_owned());
        };
        let context = validation::operation::Context {
            principal: framework.info.principal.as_deref(),
            roles: Some(&framework.roles()),
            may_share: framework.has(Capability::SharedResources),
            total: &agent.total,
            used: &agent.all_used(),
        };
        validation::operation::validate(operation, &context)
    }

    /// The agent's resources have a new shape: it remembers that, and so does the registry.
    fn reshape_agent(&mut self, agent_id: &str, before: &Resources, after: &Resources) {
        let Some(agent) = self.agents.get_mut(agent_id) else { return };
        agent.total -= before;
        agent.total += after;
        let resources = agent.total.to_protos();
        self.tell_agent(agent_id, MasterMessage::CheckpointResources { resources });
    }

    /// Tells a framework of an operation that it gave an id to.
    pub(super) fn operation_status(
        &mut self,
        framework: &str,
        agent: Option<&str>,
        operation: &Operation,
        state: OperationState,
        message: Option<String>,
    ) {
        let Some(id) = operation.id.clone() else { return };
        let status = v1::OperationStatus {
            operation_id: Some(id),
            state: state as i32,
            message,
            agent_id: agent.map(|id| v1::AgentId { value: id.to_owned() }),
            ..v1::OperationStatus::default()
        };
        self.send_operation_status(framework, status);
    }

    pub(super) fn send_operation_status(&mut self, framework: &str, status: v1::OperationStatus) {
        let update = event::UpdateOperationStatus { status };
        let event = scheduler::Event { update_operation_status: Some(update), ..Default::default() };
        self.tell_framework(framework, event::Type::UpdateOperationStatus, event);
    }

    /// An operation of an operator: on what is free, after offers that hold what it needs were rescinded. The error is
    /// the status and the text to answer.
    pub(super) fn convert_by_operator(
        &mut self,
        principal: Option<&str>,
        agent_id: &str,
        operation: &Operation,
    ) -> Result<(), (u16, String)> {
        let Some(agent) = self.agents.get(agent_id) else {
            return Err((400, "No agent found with specified ID".to_owned()));
        };
        let context = validation::operation::Context {
            principal,
            roles: None,
            may_share: true,
            total: &agent.total,
            used: &agent.all_used(),
        };
        validation::operation::validate(operation, &context).map_err(|reason| (400, reason))?;
        let steps = km_mesos_proto::resources::Conversion::of(operation).map_err(|error| (400, error.to_string()))?;
        let before: Resources = steps.iter().map(|step| step.consumed.clone()).sum();
        let after: Resources = steps.into_iter().map(|step| step.converted).sum();
        let offers = agent.offers.clone();
        for offer in offers {
            if self.allocator.free(agent_id).contains(&before) {
                break;
            }
            self.rescind_offer(&offer);
        }
        self.allocator.convert_free(agent_id, &before, &after).map_err(|reason| (409, reason))?;
        self.reshape_agent(agent_id, &before, &after);
        Ok(())
    }
}

/// An operation of the operator API.
pub(super) fn operator_operation(kind: Type) -> Operation {
    Operation { r#type: Some(kind as i32), ..Operation::default() }
}
