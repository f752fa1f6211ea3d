//! One resource object: which objects are the same kind, and so can be added to or taken from one another.

use super::{Scalar, Value};
use crate::v1::{
    Labels,
    resource::{
        DiskInfo,
        disk_info::{Source, source},
    },
};

/// One resource of an agent: a name, how much, and everything that keeps it apart from others of that name.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Such as `cpus`, `mem` (MB), `disk` (MB), `ports`.
    pub name: String,
    /// How much.
    pub value: Value,
    /// The stack of reservations, each a refinement of the one before. Empty: free for all roles.
    pub reservations: Vec<Reservation>,
    /// The role it is allocated to, while it is offered or in use.
    pub allocation: Option<String>,
    /// For `disk`: persistence, where it is mounted, where it comes from.
    pub disk: Option<DiskInfo>,
    /// May be taken back at any time.
    pub revocable: bool,
    /// Several tasks may use it at once (persistent volumes only).
    pub shared: bool,
    /// The resource provider that offers it, if it isn't the agent itself.
    pub provider_id: Option<String>,
}

/// One level of reservation.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// By the agent's flags or at run time.
    pub kind: ReservationKind,
    /// The role that has it.
    pub role: String,
    /// Who made it (run time only).
    pub principal: Option<String>,
    /// Free labels, part of its identity.
    pub labels: Option<Labels>,
}

/// How a reservation came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationKind {
    /// By the agent's flags; stays while the agent does.
    Static,
    /// By an operation; can be undone.
    Dynamic,
}

impl PartialEq for Reservation {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.role == other.role
            && self.principal == other.principal
            && same_labels(self.labels.as_ref(), other.labels.as_ref())
    }
}

impl PartialEq for Resource {
    /// Where a volume is mounted is no part of what it is.
    fn eq(&self, other: &Self) -> bool {
        self.same_kind(other) && self.shared == other.shared && self.value == other.value
    }
}

impl Resource {
    /// A resource that isn't reserved, allocated or otherwise special.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self {
            name: name.into(),
            value,
            reservations: Vec::new(),
            allocation: None,
            disk: None,
            revocable: false,
            shared: false,
            provider_id: None,
        }
    }

    /// An amount of something.
    pub fn scalar(name: impl Into<String>, amount: Scalar) -> Self {
        Self::new(name, Value::Scalar(amount))
    }

    /// The same, reserved for a role by the agent's flags; `*` reserves nothing.
    #[must_use]
    pub fn with_static_reservation(mut self, role: &str) -> Self {
        if role != "*" {
            let reservation =
                Reservation { kind: ReservationKind::Static, role: role.to_owned(), principal: None, labels: None };
            self.reservations.push(reservation);
        }
        self
    }

    /// Nothing of it?
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// The role that may use it: that of the last refinement, `*` for all.
    pub fn role(&self) -> &str {
        self.reservations.last().map_or("*", |reservation| &reservation.role)
    }

    /// Reserved for any role?
    pub fn is_reserved(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Reserved at run time, so that it can be unreserved?
    pub fn is_dynamically_reserved(&self) -> bool {
        self.reservations.last().is_some_and(|reservation| reservation.kind == ReservationKind::Dynamic)
    }

    /// May a framework of this role be offered it: is it free, or reserved for the role or one above it?
    pub fn is_allocatable_to(&self, role: &str) -> bool {
        let reserved_for = self.role();
        !self.is_reserved() || reserved_for == role || super::roles::is_strict_subrole_of(role, reserved_for)
    }

    /// The id of the persistent volume that this is.
    pub fn persistence_id(&self) -> Option<&str> {
        Some(self.disk.as_ref()?.persistence.as_ref()?.id.as_str())
    }

    /// Is it a persistent volume?
    pub fn is_persistent_volume(&self) -> bool {
        self.persistence_id().is_some()
    }

    /// Is a part of it at least of the kind of the whole? If not, it comes and goes as a whole.
    pub(super) fn is_indivisible(&self) -> bool {
        self.is_persistent_volume() || self.is_exclusive_disk()
    }

    /// A disk that can't be merged with others: each mount or block device is its own thing, each raw disk with an id.
    fn is_exclusive_disk(&self) -> bool {
        let Some(source) = self.disk.as_ref().and_then(|disk| disk.source.as_ref()) else { return false };
        match source.r#type() {
            source::Type::Mount | source::Type::Block => true,
            source::Type::Raw => source.id.is_some(),
            source::Type::Path | source::Type::Unknown => false,
        }
    }

    /// Do both become one object when added?
    pub(super) fn is_addable_to(&self, other: &Self) -> bool {
        if self.shared || other.shared {
            return self == other;
        }
        self.same_kind(other) && !self.is_indivisible()
    }

    /// Can `part` be taken from this?
    pub(super) fn is_subtractable(&self, part: &Self) -> bool {
        if self.shared || part.shared || self.is_indivisible() {
            return self == part;
        }
        self.same_kind(part)
    }

    /// Is `part` a part of this, not minding copies of shared ones?
    pub(super) fn contains(&self, part: &Self) -> bool {
        self.is_subtractable(part) && self.value.contains(&part.value)
    }

    fn same_kind(&self, other: &Self) -> bool {
        self.name == other.name
            && self.value.same_type(&other.value)
            && self.allocation == other.allocation
            && self.reservations == other.reservations
            && same_disk(self.disk.as_ref(), other.disk.as_ref())
            && self.revocable == other.revocable
            && self.provider_id == other.provider_id
    }
}

/// Labels in any order are the same labels.
pub(super) fn same_labels(left: Option<&Labels>, right: Option<&Labels>) -> bool {
    let sorted = |labels: &Labels| {
        let mut pairs: Vec<_> = labels.labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect();
        pairs.sort();
        pairs
    };
    match (left, right) {
        (Some(left), Some(right)) => left == right || sorted(left) == sorted(right),
        (left, right) => left.is_none() && right.is_none(),
    }
}

fn same_disk(left: Option<&DiskInfo>, right: Option<&DiskInfo>) -> bool {
    let (left, right) = match (left, right) {
        (None, None) => return true,
        (Some(left), Some(right)) => (left, right),
        _ => return false,
    };
    let id = |disk: &DiskInfo| disk.persistence.as_ref().map(|persistence| persistence.id.clone());
    id(left) == id(right) && same_source(left.source.as_ref(), right.source.as_ref())
}

fn same_source(left: Option<&Source>, right: Option<&Source>) -> bool {
    let (left, right) = match (left, right) {
        (None, None) => return true,
        (Some(left), Some(right)) => (left, right),
        _ => return false,
    };
    let plain = |source: &Source| Source { metadata: None, ..source.clone() };
    plain(left) == plain(right) && same_labels(left.metadata.as_ref(), right.metadata.as_ref())
}
