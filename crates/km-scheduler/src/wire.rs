//! Mesos events in, Mesos calls out: translations between the wire and the core. No IO.

use std::time::Duration;

use km_mesos_proto::v1::{
    self, Filters,
    maintenance::Schedule,
    master::response,
    offer::{Operation, operation},
    scheduler::{Call, Event as Wire, OfferConstraints, call, event},
};

use crate::core::{Action, AgentSeen, Event, Maintenance};

/// What an event of the stream means; none for heartbeats and what we don't use.
pub fn translate(wire: Wire) -> Option<Event> {
    match wire.r#type() {
        event::Type::Offers => Some(Event::Offers(wire.offers?.offers)),
        event::Type::Rescind => Some(Event::Rescinded(wire.rescind?.offer_id)),
        event::Type::InverseOffers => Some(Event::InverseOffers(wire.inverse_offers?.inverse_offers)),
        event::Type::RescindInverseOffer => Some(Event::InverseRescinded(wire.rescind_inverse_offer?.inverse_offer_id)),
        event::Type::Update => Some(Event::Update(Box::new(wire.update?.status))),
        event::Type::Failure => {
            let failure = wire.failure?;
            Some(Event::Failure {
                agent_id: failure.agent_id.map(|id| id.value),
                executor_id: failure.executor_id.map(|id| id.value),
            })
        }
        event::Type::Message => {
            let message = wire.message?;
            let text = String::from_utf8_lossy(&message.data).into_owned();
            tracing::info!(agent = message.agent_id.value, executor = message.executor_id.value, text, "message");
            None
        }
        _ => None,
    }
}

/// The call of an action; none when it isn't one for the master.
pub fn call(action: Action) -> Option<Call> {
    let mut call = Call::default();
    let kind = match action {
        Action::Accept { offers, tasks, refuse, .. } => {
            let launch = Operation {
                r#type: Some(operation::Type::Launch as i32),
                launch: Some(operation::Launch { task_infos: tasks }),
                ..Operation::default()
            };
            let filters = Some(filters(refuse));
            call.accept = Some(call::Accept { offer_ids: offers, operations: vec![launch], filters });
            call::Type::Accept
        }
        Action::Decline { offers, refuse, .. } => {
            call.decline = Some(call::Decline { offer_ids: offers, filters: Some(filters(refuse)) });
            call::Type::Decline
        }
        Action::AnswerInverse { offers, accept: true, refuse } => {
            let accept = call::AcceptInverseOffers { inverse_offer_ids: offers, filters: Some(filters(refuse)) };
            call.accept_inverse_offers = Some(accept);
            call::Type::AcceptInverseOffers
        }
        Action::AnswerInverse { offers, accept: false, refuse } => {
            let decline = call::DeclineInverseOffers { inverse_offer_ids: offers, filters: Some(filters(refuse)) };
            call.decline_inverse_offers = Some(decline);
            call::Type::DeclineInverseOffers
        }
        Action::Suppress => call::Type::Suppress,
        Action::Revive => call::Type::Revive,
        Action::UpdateFramework { info, suppressed_roles, constraints, .. } => {
            let update = call::UpdateFramework {
                framework_info: *info,
                suppressed_roles,
                offer_constraints: some_constraints(constraints),
            };
            call.update_framework = Some(update);
            call::Type::UpdateFramework
        }
        Action::Kill { task_id, agent_id } => {
            let agent_id = agent_id.map(v1::AgentId::from);
            call.kill = Some(call::Kill { task_id: task_id.into(), agent_id, kill_policy: None });
            call::Type::Kill
        }
        Action::Acknowledge { task_id, agent_id, uuid } => {
            let acknowledge = call::Acknowledge { agent_id: agent_id.into(), task_id: task_id.into(), uuid };
            call.acknowledge = Some(acknowledge);
            call::Type::Acknowledge
        }
        Action::Reconcile(tasks) => {
            let task = |(task, agent): (String, String)| call::reconcile::Task {
                task_id: task.into(),
                agent_id: (!agent.is_empty()).then(|| agent.into()),
            };
            call.reconcile = Some(call::Reconcile { tasks: tasks.into_iter().map(task).collect() });
            call::Type::Reconcile
        }
        Action::Message { agent_id, executor_id, data } => {
            call.message = Some(call::Message { agent_id: agent_id.into(), executor_id: executor_id.into(), data });
            call::Type::Message
        }
        _ => return None,
    };
    call.r#type = Some(kind as i32);
    Some(call)
}

/// No constraints are none, not empty ones.
pub fn some_constraints(constraints: OfferConstraints) -> Option<OfferConstraints> {
    Some(constraints).filter(|constraints| !constraints.role_constraints.is_empty())
}

fn filters(refuse: Duration) -> Filters {
    Filters { refuse_seconds: Some(refuse.as_secs_f64()) }
}

/// Region and zone of a machine.
pub(crate) fn domain(domain: Option<&v1::DomainInfo>) -> Option<(String, String)> {
    let fault = domain?.fault_domain.as_ref()?;
    Some((fault.region.name.clone(), fault.zone.name.clone()))
}

/// An agent as the operator API lists it, with what the schedule says of its machine if we may see it; none when it has
/// no id.
pub fn seen(agent: response::get_agents::Agent, schedule: Option<&Schedule>) -> Option<AgentSeen> {
    let maintenance = schedule.map_or(Maintenance::Untold, |schedule| maintenance(&agent, schedule));
    let (draining, deactivated) = (agent.drain_info.is_some(), agent.deactivated.unwrap_or_default());
    let info = agent.agent_info;
    let total = agent.total_resources;
    Some(AgentSeen {
        id: info.id?.value,
        hostname: info.hostname,
        attributes: info.attributes,
        resources: if total.is_empty() { info.resources } else { total },
        // Whatever gets no new tasks is there all the same.
        active: agent.active || deactivated || draining,
        domain: domain(info.domain.as_ref()),
        draining,
        deactivated,
        maintenance,
    })
}

/// A schedule names machines by host name and address together.
fn maintenance(agent: &response::get_agents::Agent, schedule: &Schedule) -> Maintenance {
    let address = agent.pid.as_deref().and_then(|pid| pid.rsplit_once('@')).map_or("", |(_, address)| address);
    let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
    let is_its_machine = |machine: &v1::MachineId| {
        machine.ip.as_deref() == Some(ip)
            && machine.hostname.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(&agent.agent_info.hostname))
    };
    let mut windows = schedule.windows.iter();
    let window = windows.find(|window| window.machine_ids.iter().any(is_its_machine));
    window.map_or(Maintenance::NotPlanned, |window| Maintenance::Planned(window.unavailability))
}
