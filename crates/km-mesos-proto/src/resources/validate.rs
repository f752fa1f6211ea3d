//! Which `Resource` messages are well-formed. The texts are those that frameworks see from Apache Mesos.

use std::collections::BTreeSet;

use super::{Scalar, resource::same_labels, roles};
use crate::v1::{self, resource::ReservationInfo, resource::disk_info::source, resource::reservation_info, value};

/// Checks one resource: a name, a value that fits the type, a disk only on `disk`, and reservations in one of the
/// three forms in use (before refinement: `role` and `reservation`; after: `reservations`; of the endpoints: both,
/// saying the same).
pub fn validate(resource: &v1::Resource) -> Result<(), String> {
    if resource.name.is_empty() {
        return Err("Empty resource name".to_owned());
    }
    validate_value(resource)?;
    validate_disk(resource)?;
    if resource.reservations.is_empty() { validate_role_form(resource) } else { validate_reservations(resource) }
}

fn validate_value(resource: &v1::Resource) -> Result<(), String> {
    let kind = value::Type::try_from(resource.r#type).map_err(|_| "Invalid resource type".to_owned())?;
    match (kind, &resource.scalar, &resource.ranges, &resource.set) {
        (value::Type::Scalar, Some(scalar), None, None) => validate_scalar(&resource.name, scalar.value),
        (value::Type::Scalar, ..) => Err("Invalid scalar resource".to_owned()),
        (value::Type::Ranges, None, Some(ranges), None) => validate_ranges(ranges),
        (value::Type::Ranges, ..) => Err("Invalid ranges resource".to_owned()),
        (value::Type::Set, None, None, Some(set)) => {
            let distinct = set.item.iter().collect::<BTreeSet<_>>().len();
            let unique = distinct == set.item.len();
            if unique { Ok(()) } else { Err("Invalid set resource: duplicated elements".to_owned()) }
        }
        (value::Type::Set, ..) => Err("Invalid set resource".to_owned()),
        (value::Type::Text, ..) => Err("Unsupported resource type".to_owned()),
    }
}

fn validate_scalar(name: &str, amount: f64) -> Result<(), String> {
    if !amount.is_finite() {
        return Err(format!("Invalid scalar resource: {amount} is not finite"));
    }
    if Scalar::from_f64(amount) <= Scalar::ZERO {
        return Err("Invalid scalar resource: value <= 0".to_owned());
    }
    if name == "gpus" && Scalar::from_f64(amount).milli() % 1000 != 0 {
        return Err("The 'gpus' resource must be an unsigned integer".to_owned());
    }
    Ok(())
}

fn validate_ranges(ranges: &value::Ranges) -> Result<(), String> {
    let mut sorted: Vec<_> = ranges.range.iter().map(|range| (range.begin, range.end)).collect();
    sorted.sort_unstable();
    if sorted.iter().any(|(begin, end)| begin > end) {
        return Err("Invalid ranges resource: begin > end".to_owned());
    }
    if sorted.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return Err("Invalid ranges resource: overlapping ranges".to_owned());
    }
    Ok(())
}

fn validate_disk(resource: &v1::Resource) -> Result<(), String> {
    let Some(disk) = &resource.disk else { return Ok(()) };
    if resource.name != "disk" {
        return Err(format!("DiskInfo should not be set for {} resource", resource.name));
    }
    if disk.source.as_ref().is_some_and(|source| source.r#type() == source::Type::Unknown) {
        return Err("Unsupported 'DiskInfo.Source.Type' in 'DiskInfo.Source'".to_owned());
    }
    Ok(())
}

/// The form of agents and frameworks that don't know refined reservations.
fn validate_role_form(resource: &v1::Resource) -> Result<(), String> {
    let role = resource.role.as_deref().unwrap_or("*");
    roles::validate(role)?;
    let Some(reservation) = &resource.reservation else { return Ok(()) };
    if role == "*" {
        return Err("Invalid reservation: role \"*\" cannot be dynamically reserved".to_owned());
    }
    for (set, field) in [(reservation.r#type.is_some(), "type"), (reservation.role.is_some(), "role")] {
        if set {
            return Err(format!(
                "'Resource.ReservationInfo.{field}' must not be set for the 'Resource.reservation' field"
            ));
        }
    }
    Ok(())
}

fn validate_reservations(resource: &v1::Resource) -> Result<(), String> {
    let mut outer: Option<&str> = None;
    for reservation in &resource.reservations {
        let role = validate_reservation(reservation)?;
        if let Some(outer) = outer {
            if !roles::is_strict_subrole_of(role, outer) {
                return Err(format!("Invalid refined reservation: role '{role}' is not a refinement of '{outer}'"));
            }
            if reservation.r#type() == reservation_info::Type::Static {
                return Err("Invalid refined reservation: A refined reservation cannot be STATIC".to_owned());
            }
        }
        outer = Some(role);
    }
    validate_endpoint_form(resource)
}

fn validate_reservation(reservation: &ReservationInfo) -> Result<&str, String> {
    if reservation.r#type() == reservation_info::Type::Unknown {
        return Err("Invalid reservation: 'type' must be STATIC or DYNAMIC".to_owned());
    }
    let Some(role) = reservation.role.as_deref() else {
        return Err("Invalid reservation: 'role' must be set".to_owned());
    };
    roles::validate(role)?;
    if role == "*" {
        return Err("Invalid reservation: role \"*\" cannot be reserved".to_owned());
    }
    Ok(role)
}

/// `role` and `reservation` may stand beside one reservation when they say the same.
fn validate_endpoint_form(resource: &v1::Resource) -> Result<(), String> {
    if resource.role.is_none() && resource.reservation.is_none() {
        return Ok(());
    }
    let [reservation] = &resource.reservations[..] else {
        return Err(
            "Invalid resource format: 'role' and 'reservation' can't stand beside refined reservations".to_owned()
        );
    };
    if resource.role.is_some() && resource.role != reservation.role {
        return Err("Invalid resource format: 'role' differs from the role in 'reservations'".to_owned());
    }
    let same = match (&resource.reservation, reservation.r#type()) {
        (Some(old), reservation_info::Type::Dynamic) => {
            old.principal == reservation.principal && same_labels(old.labels.as_ref(), reservation.labels.as_ref())
        }
        (None, reservation_info::Type::Static) => true,
        _ => false,
    };
    if same { Ok(()) } else { Err("Invalid resource format: 'reservation' differs from 'reservations'".to_owned()) }
}
