//! Resources of tasks, executors and operations (M155, M165, M166).

use km_mesos_proto::{
    resources::{self, Resource, Resources},
    v1,
};

use super::ensure;

/// Checks every resource of a list alone, and the list as a whole, in Apache Mesos' order.
pub(in crate::master) fn list(all: &[v1::Resource]) -> Result<(), String> {
    let mut read = Vec::new();
    for one in all {
        resources::validate(one)?;
        let resource = Resource::from_proto(one).map_err(|error| error.to_string())?;
        ensure(!resource.shared || resource.is_persistent_volume(), || {
            "Only persistent volumes can be shared".to_owned()
        })?;
        read.push(resource);
    }
    for (resource, message) in read.iter().zip(all) {
        disk(resource, message).map_err(|reason| format!("Invalid DiskInfo: {reason}"))?;
    }
    for resource in &read {
        revocable(resource).map_err(|reason| format!("Invalid ReservationInfo: {reason}"))?;
    }
    one_name_one_kind(all)
}

/// What is wrong with the first malformed resource: one spoils the whole operation.
pub(in crate::master) fn first_malformed<'a>(all: impl IntoIterator<Item = &'a v1::Resource>) -> Option<String> {
    all.into_iter().find_map(|one| {
        let shared_alone = one.shared.is_some() && one.disk.as_ref().is_none_or(|disk| disk.persistence.is_none());
        let reason = match resources::validate(one) {
            Err(reason) => reason,
            Ok(()) if shared_alone => "Only persistent volumes can be shared".to_owned(),
            Ok(()) => return None,
        };
        Some(format!("Resource '{}' is invalid: {reason}", show(one)))
    })
}

/// A resource as text, though it be malformed.
fn show(one: &v1::Resource) -> String {
    if let Ok(read) = Resource::from_proto(one) {
        return read.to_string();
    }
    let reservation = |one: &v1::resource::ReservationInfo| {
        let principal = one.principal.as_ref().map(|principal| format!(",{principal}")).unwrap_or_default();
        format!("({},{}{principal})", one.r#type().as_str_name(), one.role())
    };
    let mut text = one.name.clone();
    if !one.reservations.is_empty() {
        let all: Vec<String> = one.reservations.iter().map(reservation).collect();
        text += &format!("(reservations: [{}])", all.join(","));
    }
    match &one.scalar {
        Some(scalar) => format!("{text}:{}", resources::Scalar::from_f64(scalar.value)),
        None => text,
    }
}

/// What is dynamically reserved may not be taken back at any time.
fn revocable(resource: &Resource) -> Result<(), String> {
    ensure(!(resource.revocable && resource.is_dynamically_reserved()), || {
        format!("Dynamically reserved resource {resource} cannot be created from revocable resources")
    })
}

fn disk(resource: &Resource, message: &v1::Resource) -> Result<(), String> {
    let Some(disk) = &message.disk else { return Ok(()) };
    let Some(persistence) = &disk.persistence else {
        return ensure(disk.volume.is_none(), || "Non-persistent volume not supported".to_owned());
    };
    ensure(!resource.revocable, || "Persistent volumes cannot be created from revocable resources".to_owned())?;
    ensure(resource.is_reserved(), || "Persistent volumes cannot be created from unreserved resources".to_owned())?;
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
