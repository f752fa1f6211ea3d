//! ExecutorInfo (M129 to M134, M141, M144, M149, M150).

use km_mesos_proto::v1::{self, container_info, executor_info::Type};

use super::{container, ensure, resource};
use crate::master::framework::Framework;

/// Checks an executor alone and against the framework it is for.
pub(in crate::master) fn validate(executor: &v1::ExecutorInfo, framework: &Framework) -> Result<(), String> {
    kind(executor)?;
    super::id(&executor.executor_id.value)?;
    if let Some(id) = &executor.framework_id {
        ensure(id.value == framework.id, || {
            format!("ExecutorInfo has an invalid FrameworkID (Actual: {} vs Expected: {})", id.value, framework.id)
        })?;
    }
    if let Some(grace) = &executor.shutdown_grace_period {
        ensure(grace.nanoseconds >= 0, || "ExecutorInfo's 'shutdown_grace_period' must be non-negative".to_owned())?;
    }
    resource::list(&executor.resources).map_err(|reason| format!("Executor uses invalid resources: {reason}"))?;
    if let Some(command) = &executor.command {
        container::command(command).map_err(|reason| format!("Executor's `CommandInfo` is invalid: {reason}"))?;
    }
    if let Some(info) = &executor.container {
        container::container(info).map_err(|reason| format!("Executor's `ContainerInfo` is invalid: {reason}"))?;
        let shares = info.linux_info.as_ref().and_then(|linux| linux.share_cgroups);
        ensure(shares != Some(true), || {
            "The 'share_cgroups' field cannot be set to 'true' on executor containers".to_owned()
        })?;
    }
    Ok(())
}

fn kind(executor: &v1::ExecutorInfo) -> Result<(), String> {
    match executor.r#type.and_then(|number| Type::try_from(number).ok()) {
        Some(Type::Default) => {
            ensure(executor.command.is_none(), || {
                "'ExecutorInfo.command' must not be set for 'DEFAULT' executor".to_owned()
            })?;
            let Some(info) = &executor.container else { return Ok(()) };
            ensure(info.r#type == container_info::Type::Mesos as i32, || {
                "'ExecutorInfo.container.type' must be 'MESOS' for 'DEFAULT' executor".to_owned()
            })?;
            ensure(info.mesos.as_ref().is_none_or(|mesos| mesos.image.is_none()), || {
                "'ExecutorInfo.container.mesos.image' must not be set for 'DEFAULT' executor".to_owned()
            })
        }
        Some(Type::Custom) => {
            ensure(executor.command.is_some(), || "'ExecutorInfo.command' must be set for 'CUSTOM' executor".to_owned())
        }
        // Unset is allowed for old frameworks; an unknown type is not judged, as in Mesos.
        Some(Type::Unknown) | None => Ok(()),
    }
}

/// Executors of one id on one agent must be equal; of their resources the order is irrelevant (M139).
pub(in crate::master) fn compatible(new: &v1::ExecutorInfo, existing: &v1::ExecutorInfo) -> Result<(), String> {
    let bare = |executor: &v1::ExecutorInfo| v1::ExecutorInfo { resources: Vec::new(), ..executor.clone() };
    let resources = |executor: &v1::ExecutorInfo| resource::read(&executor.resources);
    ensure(bare(new) == bare(existing) && resources(new) == resources(existing), || {
        "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.".to_owned()
    })
}
