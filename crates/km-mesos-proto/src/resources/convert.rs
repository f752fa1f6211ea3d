//! From messages to the algebra and back.

use super::{
    Ranges, Reservation, ReservationKind, Resource, ResourceError, Resources, Scalar, Value, validate::validate,
};
use crate::v1::{
    self,
    resource::{AllocationInfo, ReservationInfo, RevocableInfo, SharedInfo, reservation_info},
    value,
};

impl Resources {
    /// Reads well-formed messages. Empty ones (0 CPUs, no ports) are left out.
    ///
    /// # Errors
    /// Says which resource is malformed, and how.
    pub fn from_protos(resources: &[v1::Resource]) -> Result<Self, ResourceError> {
        let mut all = Self::new();
        for resource in resources.iter().filter(|resource| !is_zero(resource)) {
            all.insert(Resource::from_proto(resource)?);
        }
        Ok(all)
    }

    /// The messages, in the form with `reservations`. A shared one is repeated for each of its copies.
    pub fn to_protos(&self) -> Vec<v1::Resource> {
        let copies = self.entries.iter().flat_map(|entry| std::iter::repeat_n(&entry.resource, entry.copies as usize));
        copies.map(Resource::to_proto).collect()
    }

    /// The messages as operators see them: in both forms at once, where the older can say it.
    pub fn to_protos_for_operators(&self) -> Vec<v1::Resource> {
        let both = |resource: v1::Resource| match without_refinement(resource.clone()) {
            Ok(old) => v1::Resource { role: old.role, reservation: old.reservation, ..resource },
            Err(_) => resource,
        };
        self.to_protos().into_iter().map(both).collect()
    }

    /// The messages in the form with `role` and `reservation`, for those without the capability
    /// `RESERVATION_REFINEMENT`.
    ///
    /// # Errors
    /// Refined reservations can't be said in that form.
    pub fn to_protos_without_refinement(&self) -> Result<Vec<v1::Resource>, ResourceError> {
        self.to_protos().into_iter().map(without_refinement).collect()
    }
}

impl Resource {
    /// Reads a well-formed message in any of its forms.
    ///
    /// # Errors
    /// Says what is malformed.
    pub fn from_proto(resource: &v1::Resource) -> Result<Self, ResourceError> {
        let name = &resource.name;
        validate(resource).map_err(|reason| ResourceError::new(format!("Resource '{name}' is invalid: {reason}")))?;
        Ok(Self {
            name: name.clone(),
            value: value_of(resource),
            reservations: reservations_of(resource),
            allocation: resource.allocation_info.as_ref().and_then(|info| info.role.clone()),
            disk: resource.disk.clone(),
            revocable: resource.revocable.is_some(),
            shared: resource.shared.is_some(),
            provider_id: resource.provider_id.as_ref().map(|id| id.value.clone()),
        })
    }

    /// The message, in the form with `reservations`.
    pub fn to_proto(&self) -> v1::Resource {
        let mut resource = v1::Resource {
            name: self.name.clone(),
            reservations: self.reservations.iter().map(reservation_to_proto).collect(),
            allocation_info: self.allocation.clone().map(|role| AllocationInfo { role: Some(role) }),
            disk: self.disk.clone(),
            revocable: self.revocable.then(RevocableInfo::default),
            shared: self.shared.then(SharedInfo::default),
            provider_id: self.provider_id.clone().map(Into::into),
            ..Default::default()
        };
        match &self.value {
            Value::Scalar(amount) => {
                resource.set_type(value::Type::Scalar);
                resource.scalar = Some(value::Scalar { value: amount.to_f64() });
            }
            Value::Ranges(ranges) => {
                resource.set_type(value::Type::Ranges);
                resource.ranges = Some(ranges.to_proto());
            }
            Value::Set(items) => {
                resource.set_type(value::Type::Set);
                resource.set = Some(value::Set { item: items.iter().cloned().collect() });
            }
        }
        resource
    }
}

impl Ranges {
    /// The message.
    pub fn to_proto(&self) -> value::Ranges {
        let range = self.ranges().map(|range| value::Range { begin: *range.start(), end: *range.end() });
        value::Ranges { range: range.collect() }
    }

    /// Reads a message; ranges may overlap or touch.
    pub fn from_proto(ranges: &value::Ranges) -> Self {
        ranges.range.iter().map(|range| range.begin..=range.end).collect()
    }
}

/// An amount of nothing is lawful where amounts are summed, but no resource.
fn is_zero(resource: &v1::Resource) -> bool {
    match resource.r#type() {
        value::Type::Scalar => resource.scalar.is_some_and(|scalar| Scalar::from_f64(scalar.value).is_zero()),
        value::Type::Ranges => resource.ranges.as_ref().is_some_and(|ranges| ranges.range.is_empty()),
        value::Type::Set => resource.set.as_ref().is_some_and(|set| set.item.is_empty()),
        value::Type::Text => false,
    }
}

/// The value of a valid message: the one that is set.
fn value_of(resource: &v1::Resource) -> Value {
    match (&resource.scalar, &resource.ranges, &resource.set) {
        (Some(scalar), ..) => Value::Scalar(Scalar::from_f64(scalar.value)),
        (_, Some(ranges), _) => Value::Ranges(Ranges::from_proto(ranges)),
        (.., set) => Value::Set(set.iter().flat_map(|set| set.item.iter().cloned()).collect()),
    }
}

fn reservations_of(resource: &v1::Resource) -> Vec<Reservation> {
    if !resource.reservations.is_empty() {
        return resource.reservations.iter().map(reservation_from_proto).collect();
    }
    let Some(role) = resource.role.clone().filter(|role| role != "*") else { return Vec::new() };
    let old = resource.reservation.as_ref();
    vec![Reservation {
        kind: if old.is_some() { ReservationKind::Dynamic } else { ReservationKind::Static },
        role,
        principal: old.and_then(|reservation| reservation.principal.clone()),
        labels: old.and_then(|reservation| reservation.labels.clone()),
    }]
}

fn reservation_from_proto(reservation: &ReservationInfo) -> Reservation {
    let dynamic = reservation.r#type() == reservation_info::Type::Dynamic;
    Reservation {
        kind: if dynamic { ReservationKind::Dynamic } else { ReservationKind::Static },
        role: reservation.role().to_owned(),
        principal: reservation.principal.clone(),
        labels: reservation.labels.clone(),
    }
}

fn reservation_to_proto(reservation: &Reservation) -> ReservationInfo {
    let kind = match reservation.kind {
        ReservationKind::Static => reservation_info::Type::Static,
        ReservationKind::Dynamic => reservation_info::Type::Dynamic,
    };
    ReservationInfo {
        r#type: Some(kind.into()),
        role: Some(reservation.role.clone()),
        principal: reservation.principal.clone(),
        labels: reservation.labels.clone(),
    }
}

fn without_refinement(mut resource: v1::Resource) -> Result<v1::Resource, ResourceError> {
    match &mut resource.reservations[..] {
        [] => resource.role = Some("*".to_owned()),
        [reservation] => {
            let dynamic = reservation.r#type() == reservation_info::Type::Dynamic;
            resource.role = reservation.role.take();
            reservation.r#type = None;
            resource.reservation = dynamic.then(|| std::mem::take(reservation));
        }
        _ => {
            let reason =
                format!("Resource '{}' has refined reservations, which the receiver doesn't know", resource.name);
            return Err(ResourceError::new(reason));
        }
    }
    resource.reservations.clear();
    Ok(resource)
}
