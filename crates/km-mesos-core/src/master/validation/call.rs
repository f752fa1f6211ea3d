//! The form of a scheduler's call, before the framework is looked up. The HTTP shell answers 400 with the reason.

use km_mesos_proto::v1::scheduler::{Call, call::Type};

use super::ensure;

/// Checks that a call has the parts its type needs.
pub fn validate(call: &Call) -> Result<(), String> {
    let kind = call.r#type.and_then(|number| Type::try_from(number).ok());
    let Some(kind) = kind else { return Err("Expecting 'type' to be present".to_owned()) };
    if kind == Type::Subscribe {
        return subscribe(call);
    }
    if kind == Type::Unknown {
        return Ok(());
    }
    ensure(call.framework_id.is_some(), || "Expecting 'framework_id' to be present".to_owned())?;
    let (name, present) = match kind {
        Type::Accept => ("accept", call.accept.is_some()),
        Type::Decline => ("decline", call.decline.is_some()),
        Type::AcceptInverseOffers => ("accept_inverse_offers", call.accept_inverse_offers.is_some()),
        Type::DeclineInverseOffers => ("decline_inverse_offers", call.decline_inverse_offers.is_some()),
        Type::Kill => ("kill", call.kill.is_some()),
        Type::Shutdown => ("shutdown", call.shutdown.is_some()),
        Type::Acknowledge => ("acknowledge", call.acknowledge.is_some()),
        Type::AcknowledgeOperationStatus => {
            ("acknowledge_operation_status", call.acknowledge_operation_status.is_some())
        }
        Type::Reconcile => ("reconcile", call.reconcile.is_some()),
        Type::ReconcileOperations => ("reconcile_operations", call.reconcile_operations.is_some()),
        Type::Message => ("message", call.message.is_some()),
        Type::Request => ("request", call.request.is_some()),
        Type::UpdateFramework => ("update_framework", call.update_framework.is_some()),
        Type::Unknown | Type::Subscribe | Type::Teardown | Type::Revive | Type::Suppress => ("", true),
    };
    ensure(present, || format!("Expecting '{name}' to be present"))?;
    if let Some(acknowledge) = &call.acknowledge
        && kind == Type::Acknowledge
    {
        uuid(&acknowledge.uuid)?;
    }
    if let Some(acknowledge) = &call.acknowledge_operation_status
        && kind == Type::AcknowledgeOperationStatus
    {
        uuid(&acknowledge.uuid)?;
        ensure(acknowledge.agent_id.is_some(), || "Expecting 'agent_id' to be present".to_owned())?;
    }
    if let Some(update) = &call.update_framework
        && kind == Type::UpdateFramework
    {
        let id = update.framework_info.id.as_ref();
        ensure(id == call.framework_id.as_ref(), || {
            "'framework_id' differs from 'update_framework.framework_info.id'".to_owned()
        })?;
    }
    Ok(())
}

fn subscribe(call: &Call) -> Result<(), String> {
    let Some(subscribe) = &call.subscribe else { return Err("Expecting 'subscribe' to be present".to_owned()) };
    let text = |id: Option<&km_mesos_proto::v1::FrameworkId>| id.map_or(String::new(), |id| id.value.clone());
    ensure(text(subscribe.framework_info.id.as_ref()) == text(call.framework_id.as_ref()), || {
        "'framework_id' differs from 'subscribe.framework_info.id'".to_owned()
    })
}

fn uuid(bytes: &[u8]) -> Result<(), String> {
    // Of the version, in the upper half of the seventh byte, there are five.
    let valid = bytes.len() == 16 && (1..=5).contains(&(bytes[6] >> 4));
    ensure(valid, || "Not a valid UUID".to_owned())
}
