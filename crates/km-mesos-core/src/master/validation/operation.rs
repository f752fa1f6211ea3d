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
    for one in resources {
        let to_star = one.reservations.last().is_some_and(|last| last.role.as_deref() == Some("*"))
            || (one.reservation.is_some() && one.role.as_deref().unwrap_or("*") == "*");
        ensure(!to_star, || "Invalid reservation: role \"*\" cannot be reserved".to_owned())?;
    }
    let all = read("Invalid reservation", resources)?;
    resource::allocation_role(&all)?;
    for one in all.iter() {
        ensure(one.is_dynamically_reserved(), || format!("Resource {} is not dynamically reserved", show(one)))?;
        ensure(!one.is_persistent_volume(), || {
            format!(
                "A persistent volume {} must already be reserved, so it is not dynamically reserved anew",
                show(one)
            )
        })?;
        ensure(!one.revocable, || "Dynamic reservations cannot be created from revocable resources".to_owned())?;
        role_of_reservation(one, context)?;
        principal_of_reservation(one, context)?;
    }
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
    for one in read("Invalid unreserve", resources)?.iter() {
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
    let all = read("Invalid resources", volumes)?;
    resource::allocation_role(&all)?;
    let mut taken: BTreeSet<(String, String)> = context
        .total
        .iter()
        .filter_map(|one| Some((one.role().to_owned(), one.persistence_id()?.to_owned())))
        .collect();
    for volume in volumes {
        let one = Resource::from_proto(volume).map_err(|error| error.to_string())?;
        let Some(id) = one.persistence_id().map(str::to_owned) else {
            return Err(format!("Resource {} is not a persistent volume", show(&one)));
        };
        ensure(taken.insert((one.role().to_owned(), id.clone())), || format!("Persistence ID '{id}' is not unique"))?;
        let mode = one.disk.as_ref().and_then(|disk| disk.volume.as_ref()).map(|volume| volume.mode);
        ensure(mode == Some(volume::Mode::Rw as i32), || "Read-only persistent volume not supported".to_owned())?;
        ensure(!one.shared || context.may_share, || {
            "Create volume operation for a shared persistent volume was attempted by a framework that does not have the SHARED_RESOURCES capability".to_owned()
        })?;
        let made_by = one.disk.as_ref().and_then(|disk| disk.persistence.as_ref()?.principal.as_deref());
        ensure(context.principal.is_none() || made_by == context.principal, || {
            format!(
                "Create volume operation was attempted by principal '{}', but the volume in the request has principal '{}'",
                context.principal.unwrap_or_default(),
                made_by.unwrap_or_default()
            )
        })?;
    }
    Ok(())
}

fn destroy(volumes: &[v1::Resource], context: &Context<'_>) -> Result<(), String> {
    for one in read("Invalid resources", volumes)?.iter() {
        ensure(one.is_persistent_volume(), || format!("Resource {} is not a persistent volume", show(one)))?;
        let plain = Resource { allocation: None, ..one.clone() };
        ensure(context.total.contains_resource(&plain), || "Persistent volumes not found".to_owned())?;
        ensure(!context.used.contains_resource(&plain), || "Persistent volumes in use".to_owned())?;
    }
    Ok(())
}

fn read(what: &str, resources: &[v1::Resource]) -> Result<Resources, String> {
    Resources::from_protos(resources).map_err(|error| format!("{what}: {error}"))
}

fn show(one: &Resource) -> String {
    Resources::from(one.clone()).to_string()
}
