//! Resources of tasks, executors and operations (M155, M165, M166).

use km_mesos_proto::{
    resources::{self, Resource, Resources},
    v1,
};

use super::ensure;

/// Checks every resource of a list alone, and the list's allocation.
pub(in crate::master) fn list(all: &[v1::Resource]) -> Result<(), String> {
    for one in all {
        resources::validate(one)?;
        let read = Resource::from_proto(one).map_err(|error| error.to_string())?;
        revocable(&read)?;
        disk(&read, one)?;
        ensure(!read.shared || read.is_persistent_volume(), || "Only persistent volumes can be shared".to_owned())?;
    }
    one_name_one_kind(all)
}

/// What is dynamically reserved may not be taken back at any time.
fn revocable(resource: &Resource) -> Result<(), String> {
    ensure(!(resource.revocable && resource.is_dynamically_reserved()), || {
        "Dynamic reservations cannot be created from revocable resources".to_owned()
    })
}

fn disk(resource: &Resource, message: &v1::Resource) -> Result<(), String> {
    let Some(disk) = &message.disk else { return Ok(()) };
    let Some(persistence) = &disk.persistence else {
        return ensure(disk.volume.is_none(), || "Non-persistent volume not supported".to_owned());
    };
    ensure(resource.is_reserved(), || "Persistent volumes cannot be created from unreserved resources".to_owned())?;
    ensure(!resource.revocable, || "Persistent volumes cannot be created from revocable resources".to_owned())?;
    let Some(volume) = &disk.volume else {
        return Err("Expecting 'volume' to be set for persistent volume".to_owned());
    };
    ensure(volume.host_path.is_none(), || "Expecting 'host_path' to be unset for persistent volume".to_owned())?;
    super::id(&persistence.id).map_err(|reason| format!("Invalid persistence ID for persistent volume: {reason}"))
}

/// One name may not be both revocable and not (X040).
fn one_name_one_kind(all: &[v1::Resource]) -> Result<(), String> {
    for one in all {
        let mixed =
            all.iter().any(|other| other.name == one.name && other.revocable.is_some() != one.revocable.is_some());
        ensure(!mixed, || format!("Cannot use both revocable and non-revocable '{}' at the same time", one.name))?;
    }
    Ok(())
}

/// The one role that resources are allocated to.
pub(in crate::master) fn allocation_role(all: &Resources) -> Result<Option<String>, String> {
    let roles: Vec<String> = all.allocations().into_keys().map(str::to_owned).collect();
    match &roles[..] {
        [] => Ok(None),
        [role] => Ok(Some(role.clone())),
        more => {
            let quoted: Vec<String> = more.iter().rev().map(|role| format!("'{role}'")).collect();
            Err(format!(
                "The resources have multiple allocation roles ({}) but only one allocation role is allowed",
                quoted.join(" and ")
            ))
        }
    }
}

/// Reads a list that was checked before.
pub(in crate::master) fn read(all: &[v1::Resource]) -> Resources {
    // Only lists that passed `list`, or that the master made itself, come here; a bad one counts as nothing.
    Resources::from_protos(all).unwrap_or_default()
}
