//! Calls of a subscribed scheduler, in the check order of Apache Mesos.

use km_mesos_proto::v1::{
    self,
    scheduler::{self, Call, call::Type, event},
};

use super::{Answer, Master, Peer, framework::Framework};
use crate::link::MasterMessage;

impl Master {
    pub(super) fn scheduler_call(&mut self, stream_id: Option<&str>, principal: Option<&str>, call: Call) -> Answer {
        let kind = call.r#type();
        if kind == Type::Unknown {
            return Answer::refused(501, "Received 'UNKNOWN' call");
        }
        let id = call.framework_id.as_ref().map(|id| id.value.clone()).unwrap_or_default();
        let Some(framework) = self.frameworks.get(&id) else {
            return Answer::refused(400, "Framework cannot be found");
        };
        if let Err(answer) = admit(framework, stream_id, principal) {
            return answer;
        }
        self.counters.count_call(kind);
        if kind == Type::UpdateFramework {
            return match call.update_framework {
                Some(update) => self.update_framework(&id, update),
                None => Answer::refused(400, "Expecting 'update_framework' to be present"),
            };
        }
        self.dispatch(&id, kind, call);
        Answer::accepted()
    }

    fn dispatch(&mut self, id: &str, kind: Type, call: Call) {
        match kind {
            Type::Teardown => self.remove_framework(id),
            Type::Accept => {
                if let Some(accept) = call.accept {
                    self.accept(id, accept);
                }
            }
            Type::Decline => {
                if let Some(decline) = call.decline {
                    self.decline(id, decline);
                }
            }
            Type::Revive => self.revive(id, call.revive.map(|revive| revive.roles).unwrap_or_default()),
            Type::Suppress => self.suppress(id, call.suppress.map(|suppress| suppress.roles).unwrap_or_default()),
            Type::Kill => {
                if let Some(kill) = call.kill {
                    self.kill(id, kill);
                }
            }
            Type::Shutdown => {
                if let Some(shutdown) = call.shutdown {
                    let (framework_id, executor_id) = (framework_id(id), shutdown.executor_id);
                    let message = MasterMessage::ShutdownExecutor { framework_id, executor_id };
                    self.tell_agent(&shutdown.agent_id.value, message);
                }
            }
            Type::Acknowledge => {
                if let Some(acknowledge) = call.acknowledge {
                    self.acknowledge(id, acknowledge);
                }
            }
            Type::Reconcile => self.reconcile(id, call.reconcile.map(|reconcile| reconcile.tasks).unwrap_or_default()),
            Type::Message => {
                if let Some(message) = call.message {
                    let framework_id = framework_id(id);
                    let (executor_id, data) = (message.executor_id, message.data);
                    let forward = MasterMessage::FrameworkMessage { framework_id, executor_id, data };
                    let sent = self.tell_agent(&message.agent_id.value, forward);
                    let kind = if sent { "valid" } else { "invalid" };
                    self.counters.count(&format!("{kind}_framework_to_executor_messages"));
                }
            }
            Type::AcceptInverseOffers => {
                if let Some(accept) = call.accept_inverse_offers {
                    self.answer_inverse_offers(id, &accept.inverse_offer_ids, true, accept.filters.as_ref());
                }
            }
            Type::DeclineInverseOffers => {
                if let Some(decline) = call.decline_inverse_offers {
                    self.answer_inverse_offers(id, &decline.inverse_offer_ids, false, decline.filters.as_ref());
                }
            }
            Type::ReconcileOperations => {
                if let Some(reconcile) = call.reconcile_operations {
                    self.reconcile_operations(id, reconcile.operations);
                }
            }
            Type::AcknowledgeOperationStatus => {
                if let Some(acknowledge) = call.acknowledge_operation_status {
                    self.acknowledge_operation(id, acknowledge);
                }
            }
            // The allocator of Mesos ignores requests.
            Type::Request => {}
            Type::Unknown | Type::Subscribe | Type::UpdateFramework => {}
        }
    }

    fn revive(&mut self, id: &str, roles: Vec<String>) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        let Some(roles) = subscribed_roles(framework, roles) else { return };
        framework.suppressed.retain(|role| !roles.contains(role));
        self.allocator.revive(id, &roles);
    }

    fn suppress(&mut self, id: &str, roles: Vec<String>) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        let Some(roles) = subscribed_roles(framework, roles) else { return };
        framework.suppressed.extend(roles.iter().cloned());
        self.allocator.suppress(id, &roles);
    }

    fn kill(&mut self, id: &str, kill: scheduler::call::Kill) {
        let Some(framework) = self.frameworks.get(id) else { return };
        let Some(task) = framework.tasks.get(&kill.task_id.value) else {
            // A scheduler that kills what is not known learns its state by an update.
            let asked = scheduler::call::reconcile::Task { task_id: kill.task_id, agent_id: kill.agent_id };
            self.reconcile(id, vec![asked]);
            return;
        };
        let agent_id = task.info.agent_id.clone();
        if kill.agent_id.is_some_and(|named| named != agent_id) {
            tracing::warn!(framework = id, task = kill.task_id.value, "kill names another agent: dropped");
            return;
        }
        let Some(agent) = self.agents.get_mut(&agent_id.value) else { return };
        agent.killed.insert((id.to_owned(), kill.task_id.value.clone()), kill.kill_policy);
        let (framework_id, task_id) = (framework_id(id), kill.task_id);
        self.tell_agent(
            &agent_id.value,
            MasterMessage::KillTask { framework_id, task_id, kill_policy: kill.kill_policy },
        );
    }

    /// A message of an executor to its scheduler: best effort.
    pub(super) fn executor_message(&mut self, agent: &str, id: &str, executor_id: v1::ExecutorId, data: Vec<u8>) {
        let agent_id = v1::AgentId { value: agent.to_owned() };
        let message = event::Message { agent_id, executor_id, data };
        let event = scheduler::Event { message: Some(message), ..Default::default() };
        self.counters.count("messages_executor_to_framework");
        let kind = if self.tell_framework(id, event::Type::Message, event) { "valid" } else { "invalid" };
        self.counters.count(&format!("{kind}_executor_to_framework_messages"));
    }

    /// Whether a connection is a scheduler's current one.
    pub fn is_scheduler_stream(&self, connection: super::ConnectionId) -> bool {
        matches!(self.peers.get(&connection), Some(Peer::Scheduler(_)))
    }
}

/// The checks after the framework is found: principal, connection, stream id.
fn admit(framework: &Framework, stream_id: Option<&str>, principal: Option<&str>) -> Result<(), Answer> {
    if principal.is_some() && framework.info.principal.as_deref() != principal {
        let reason = format!(
            "Authenticated principal '{}' does not match principal '{}' set in `FrameworkInfo`",
            principal.unwrap_or_default(),
            framework.info.principal.as_deref().unwrap_or_default()
        );
        return Err(Answer::refused(400, reason));
    }
    let Some((_, current)) = &framework.stream else {
        return Err(Answer::refused(403, "Framework is not subscribed"));
    };
    let Some(given) = stream_id else {
        return Err(Answer::refused(400, "All non-subscribe calls should include the 'Mesos-Stream-Id' header"));
    };
    if given != current {
        let reason = format!(
            "The stream ID '{given}' included in this request didn't match the stream ID currently associated with framework ID {}",
            framework.id
        );
        return Err(Answer::refused(400, reason));
    }
    Ok(())
}

/// The roles a call names, all of the framework's when it names none; nothing if any is not the framework's.
fn subscribed_roles(framework: &Framework, named: Vec<String>) -> Option<std::collections::BTreeSet<String>> {
    let own = framework.roles();
    if named.is_empty() {
        return Some(own);
    }
    let foreign = named.iter().find(|role| !own.contains(*role));
    if let Some(role) = foreign {
        tracing::warn!(framework = framework.id, role, "the call names a role that is not the framework's: dropped");
        return None;
    }
    Some(named.into_iter().collect())
}

pub(super) fn framework_id(id: &str) -> v1::FrameworkId {
    v1::FrameworkId { value: id.to_owned() }
}
