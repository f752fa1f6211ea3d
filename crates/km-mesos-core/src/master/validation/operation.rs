//! RESERVE, UNRESERVE, CREATE, DESTROY, GROW_VOLUME and SHRINK_VOLUME (M159 to M170).

use std::collections::BTreeSet;

use km_mesos_proto::{
    resources::{Resource, Resources},
    v1::{
        self,
        offer::{Operation, operation::Type},
        volume,
    },
};

use super::{ensure, resource};

/// Who asks, and on what.
pub(in crate::master) struct Context<'a> {
    /// The framework's id; empty for an operator.
    pub framework: &'a str,
    /// The framework's principal, or the operator's.
    pub principal: Option<&'a str>,
    /// The framework's roles; none for an operator.
    pub roles: Option<&'a BTreeSet<String>>,
    /// Whether the framework may share volumes; operators always may.
    pub may_share: bool,
    /// All resources of the agent.
    pub total: &'a Resources,
    /// What tasks and executors there use, unallocated.
    pub used: &'a Resources,
}

pub(in crate::master) fn validate(operation: &Operation, context: &Context<'_>) -> Result<(), String> {
    match operation.r#type() {
        Type::Reserve => reserve(operation.reserve.as_ref().map_or(&[], |one| &one.resources), context),
        Type::Unreserve => unreserve(operation.unreserve.as_ref().map_or(&[], |one| &one.resources)),
        Type::Create => create(operation.create.as_ref().map_or(&[], |one| &one.volumes), context),
        Type::Destroy => destroy(operation.destroy.as_ref().map_or(&[], |one| &one.volumes), context),
        Type::GrowVolume | Type::ShrinkVolume => Ok(()),
        other => Err(format!("Operation {} is not supported", other.as_str_name())),
    }
}

fn reserve(resources: &[v1::Resource], context: &Context<'_>) -> Result<(), String> {
    resource::list(resources).map_err(|reason| format!("Invalid resources: {reason}"))?;
    let all = read(resources)?;
    for one in all.iter() {
        ensure(one.is_dynamically_reserved(), || format!("Resource {} is not dynamically reserved", show(one)))?;
        role_of_reservation(one, context)?;
        principal_of_reservation(one, context)?;
    }
    resource::allocation_role(&all).map_err(|reason| format!("Invalid reservation resources: {reason}"))?;
    Ok(())
}

fn role_of_reservation(one: &Resource, context: &Context<'_>) -> Result<(), String> {
    let Some(roles) = context.roles else {
        return ensure(one.allocation.is_none(), || {
            "A reserve operation was attempted with an allocated resource, but the operator API only allows reservations to be made to unallocated resources".to_owned()
        });
    };
    let Some(allocated) = &one.allocation else {
        return Err("A reserve operation was attempted on unallocated resource, but frameworks can only perform reservations on allocated resources".to_owned());
    };
    ensure(roles.contains(allocated), || {
        let names: Vec<&str> = roles.iter().map(String::as_str).collect();
        format!(
            "A reserve operation was attempted for a resource allocated to role '{allocated}', but the framework only has roles '{{ {} }}'",
            names.join(", ")
        )
    })?;
    ensure(allocated == one.role(), || {
        format!(
            "A reserve operation was attempted for a resource with role '{}', but the resource was allocated to role '{allocated}'",
            one.role()
        )
    })
}

fn principal_of_reservation(one: &Resource, context: &Context<'_>) -> Result<(), String> {
    let made_by = one.reservations.last().and_then(|last| last.principal.as_deref());
    let Some(principal) = context.principal else { return Ok(()) };
    match made_by {
        None => Err(format!(
            "A reserve operation was attempted by principal '{principal}', but there is a reserved resource in the request with no principal set"
        )),
        Some(other) if other != principal => Err(format!(
            "A reserve operation was attempted by authenticated principal '{principal}', which does not match a reserved resource in the request with principal '{other}'"
        )),
        Some(_) => Ok(()),
    }
}

fn unreserve(resources: &[v1::Resource]) -> Result<(), String> {
    resource::list(resources).map_err(|reason| format!("Invalid resources: {reason}"))?;
    for one in read(resources)?.iter() {
        ensure(one.is_dynamically_reserved(), || format!("Resource {} is not dynamically reserved", show(one)))?;
        ensure(!one.is_persistent_volume(), || {
            format!(
                "A dynamically reserved persistent volume {} cannot be unreserved directly. Please destroy the persistent volume first then unreserve the resource",
                show(one)
            )
        })?;
    }
    Ok(())
}

fn create(volumes: &[v1::Resource], context: &Context<'_>) -> Result<(), String> {
    resource::list(volumes).map_err(|reason| format!("Invalid resources: {reason}"))?;
    let all = read(volumes)?;
    resource::allocation_role(&all)?;
    for one in volumes {
        is_volume(&Resource::from_proto(one).map_err(|error| error.to_string())?)?;
    }
    let mut taken: BTreeSet<(String, String)> = context
        .total
        .iter()
        .filter_map(|one| Some((one.role().to_owned(), one.persistence_id()?.to_owned())))
        .collect();
    for volume in volumes {
        let one = Resource::from_proto(volume).map_err(|error| error.to_string())?;
        let id = one.persistence_id().unwrap_or_default().to_owned();
        ensure(taken.insert((one.role().to_owned(), id.clone())), || format!("Persistence ID '{id}' is not unique"))?;
    }
    for one in all.iter() {
        ensure(!one.shared || context.may_share, || {
            format!(
                "Create volume operation for '{one}' has been attempted by framework '{}' with no SHARED_RESOURCES capability",
                context.framework
            )
        })?;
        principal_of_volume(one, context)?;
    }
    Ok(())
}

fn principal_of_volume(volume: &Resource, context: &Context<'_>) -> Result<(), String> {
    let made_by = volume.disk.as_ref().and_then(|disk| disk.persistence.as_ref()?.principal.as_deref());
    let Some(principal) = context.principal else { return Ok(()) };
    match made_by {
        None => Err(format!(
            "Create volume operation attempted by principal '{principal}', but there is a volume in the operation with no principal set in 'disk.persistence'"
        )),
        Some(other) if other != principal => Err(format!(
            "Create volume operation attempted by authenticated principal '{principal}', which does not match a volume in the operation with principal '{other}' set in 'disk.persistence'"
        )),
        Some(_) => Ok(()),
    }
}

fn is_volume(one: &Resource) -> Result<(), String> {
    let wrong = |reason: String| Err(format!("Not a persistent volume: {reason}"));
    let Some(disk) = &one.disk else { return wrong(format!("Resource {} does not have DiskInfo", show(one))) };
    if disk.persistence.is_none() {
        return wrong(format!("Resource {} does not have persistence ID", show(one)));
    }
    match &disk.volume {
        Some(volume) if volume.mode == volume::Mode::Ro as i32 => {
            wrong("Read-only persistent volume not supported".to_owned())
        }
        _ => Ok(()),
    }
}

fn destroy(volumes: &[v1::Resource], context: &Context<'_>) -> Result<(), String> {
    for one in read(volumes)?.iter() {
        let plain = Resource { allocation: None, ..one.clone() };
        is_volume(&plain)?;
        ensure(context.total.contains_resource(&plain), || "Persistent volumes not found".to_owned())?;
        ensure(!context.used.contains_resource(&plain), || "Persistent volumes in use".to_owned())?;
    }
    Ok(())
}

fn read(resources: &[v1::Resource]) -> Result<Resources, String> {
    Resources::from_protos(resources).map_err(|error| format!("Invalid resources: {error}"))
}

fn show(one: &Resource) -> String {
    Resources::from(one.clone()).to_string()
}
