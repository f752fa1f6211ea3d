//! RESERVE, UNRESERVE, CREATE, DESTROY and the like: by frameworks on offers, by operators on agents.
//!
//! They take effect in the books at once. The agent writes the result down, makes or removes the volumes, and tells the
//! end of those operations that have an id (see `feedback`).

use km_mesos_proto::{
    resources::Resources,
    v1::{
        framework_info::capability::Type as Capability,
        offer::{Operation, operation::Type},
    },
};

use super::{Master, accept::Pool, agent::Agent, validation};
use crate::link::MasterMessage;

impl Master {
    /// An operation of a framework on accepted resources. One that fails is dropped.
    pub(super) fn convert(&mut self, pool: &mut Pool, operation: Operation) {
        let converted = self
            .check_operation(pool, &operation)
            .and_then(|()| pool.available.apply(&operation).map_err(|error| error.to_string()));
        let after = match converted {
            Ok(after) => after,
            Err(reason) => {
                tracing::warn!(framework = pool.framework, agent = pool.agent, reason, "operation dropped");
                self.refuse_operation(&pool.framework.clone(), &operation, reason);
                return;
            }
        };
        let before = std::mem::replace(&mut pool.available, after);
        self.allocator.convert(&pool.framework, &pool.agent, &before, &pool.available);
        if operation.r#type() == Type::Destroy {
            self.rescind_offers_of_destroyed(&pool.agent.clone(), &before, &pool.available);
        }
        self.reshape(&pool.agent, &before.unallocated(), &pool.available.unallocated());
        self.apply_on_agent(&pool.agent, Some(&pool.framework), operation);
    }

    fn check_operation(&self, pool: &Pool, operation: &Operation) -> Result<(), String> {
        let (Some(framework), Some(agent)) = (self.frameworks.get(&pool.framework), self.agents.get(&pool.agent))
        else {
            return Err("The agent is gone".to_owned());
        };
        let context = validation::operation::Context {
            framework: &framework.id,
            principal: framework.info.principal.as_deref(),
            roles: Some(&framework.roles()),
            may_share: framework.has(Capability::SharedResources),
            total: &agent.total,
            used: &agent.all_used(),
        };
        validation::operation::validate(operation, &context)
            .map_err(|reason| format!("{reason}; on agent {}", agent.described()))
    }

    /// Shared volumes are offered to several at once; what is destroyed must not stay in the offers of others.
    fn rescind_offers_of_destroyed(&mut self, agent: &str, before: &Resources, after: &Resources) {
        let gone = (before.unallocated() - &after.unallocated()).shared();
        if gone.is_empty() {
            return;
        }
        for offer in self.agents.get(agent).map(|agent| agent.offers.clone()).unwrap_or_default() {
            let Some(found) = self.offers.get(&offer) else { continue };
            let offered = validation::resource::read(&found.resources).unallocated();
            if gone.iter().any(|volume| offered.contains_resource(volume)) {
                self.rescind_offer(&offer);
            }
        }
    }

    /// The agent's resources have a new shape.
    fn reshape(&mut self, agent_id: &str, before: &Resources, after: &Resources) {
        let Some(agent) = self.agents.get_mut(agent_id) else { return };
        agent.total -= before;
        agent.total += after;
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
        if let Some(reason) = super::accept::malformed(operation) {
            return Err((400, reason));
        }
        let steps = km_mesos_proto::resources::Conversion::of(operation);
        let context = validation::operation::Context {
            framework: "",
            principal,
            roles: None,
            may_share: true,
            total: &agent.total,
            used: &agent.all_used(),
        };
        validation::operation::validate(operation, &context)
            .map_err(|reason| (400, invalid(operation, agent, &reason)))?;
        let steps = steps.map_err(|error| (400, error.to_string()))?;
        self.free_by_rescinding(agent_id, steps.into_iter().map(|step| step.consumed).sum());
        let (before, after) = self.allocator.convert_free(agent_id, operation).map_err(|reason| (409, reason))?;
        self.reshape(agent_id, &before, &after);
        self.apply_on_agent(agent_id, None, operation.clone());
        Ok(())
    }

    /// Rescinds offers that hold what is missing, and no others.
    fn free_by_rescinding(&mut self, agent_id: &str, needed: Resources) {
        let mut missing = needed - &self.allocator.free(agent_id);
        let offers = self.agents.get(agent_id).map(|agent| agent.offers.clone()).unwrap_or_default();
        for offer in offers {
            if missing.is_empty() {
                return;
            }
            let Some(found) = self.offers.get(&offer) else { continue };
            let without = missing.clone() - &validation::resource::read(&found.resources).unallocated();
            if without != missing {
                self.rescind_offer(&offer);
                missing = without;
            }
        }
    }

    /// Lets the agent write down what its resources are now, and note the operation if its framework wants to hear of it.
    fn apply_on_agent(&mut self, agent_id: &str, framework: Option<&str>, operation: Operation) {
        let Some(resources) = self.agents.get(agent_id).map(|agent| agent.total.to_protos()) else { return };
        self.counters.count_operation(&operation, "total");
        let message = match framework.filter(|_| operation.id.is_some()) {
            Some(framework) => {
                let operation = self.track_operation(agent_id, framework, operation);
                MasterMessage::ApplyOperation { operation, resources }
            }
            None => {
                self.counters.count_operation(&operation, "finished");
                MasterMessage::CheckpointResources { resources }
            }
        };
        self.tell_agent(agent_id, message);
    }
}

/// What is answered to an operator whose operation is not lawful.
fn invalid(operation: &Operation, agent: &Agent, reason: &str) -> String {
    match operation.r#type() {
        kind @ Type::Reserve => {
            format!("Invalid {} operation on agent {}: {reason}", kind.as_str_name(), agent.described())
        }
        kind => format!("Invalid {} operation: {reason}", kind.as_str_name()),
    }
}

/// An operation of the operator API.
pub(super) fn operator_operation(kind: Type) -> Operation {
    Operation { r#type: Some(kind as i32), ..Operation::default() }
}
