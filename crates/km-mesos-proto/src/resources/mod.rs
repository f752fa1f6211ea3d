//! The algebra of Mesos resources: what an agent has, what an offer holds, what a task takes.
//!
//! Amounts are fixed point, so sums are exact. Objects merge when nothing but the amount tells them apart; roles,
//! reservations, allocation, disks, revocability and sharing all do.

mod apply;
pub mod attributes;
mod convert;
mod find;
mod parse;
mod print;
mod quantities;
mod queries;
mod ranges;
mod resource;
pub mod roles;
mod scalar;
mod validate;
mod value;

use std::ops::{Add, AddAssign, Sub, SubAssign};

pub use apply::Conversion;
pub use quantities::{Limits, Quantities};
pub use queries::overlaps;
pub use ranges::Ranges;
pub use resource::{Reservation, ReservationKind, Resource};
pub use scalar::Scalar;
pub use validate::validate;
pub use value::{ParsedValue, Value};

/// Why a text, a message or an operation is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResourceError(String);

impl ResourceError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Resource objects, merged as far as they can be, none of them empty.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    resource: Resource,
    /// How many users a shared resource has; 1 for all others.
    copies: u32,
}

impl Entry {
    fn contains(&self, part: &Self) -> bool {
        self.resource.contains(&part.resource) && (!self.resource.shared || self.copies >= part.copies)
    }
}

impl Resources {
    /// Nothing.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// The objects, each copy of a shared one only once.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.entries.iter().map(|entry| &entry.resource)
    }

    /// The number of distinct objects.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Nothing at all?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one object, or one copy of a shared one. Empty ones vanish.
    pub fn insert(&mut self, resource: Resource) {
        self.add_entry(Entry { resource, copies: 1 });
    }

    /// Takes one object, or one copy of a shared one, away. Nothing happens if there is none of its kind; if there is
    /// less than that, all goes.
    pub fn remove(&mut self, resource: &Resource) {
        self.subtract_entry(&Entry { resource: resource.clone(), copies: 1 });
    }

    /// Is all of `other` in this?
    pub fn contains(&self, other: &Self) -> bool {
        let mut remaining = std::borrow::Cow::Borrowed(self);
        other.entries.iter().all(|part| {
            let found = remaining.entries.iter().any(|entry| entry.contains(part));
            // Objects that don't merge may be there several times, so each needs a partner of its own.
            if found && part.resource.is_indivisible() {
                remaining.to_mut().subtract_entry(part);
            }
            found
        })
    }

    /// Is this object, or a copy of it, in this?
    pub fn contains_resource(&self, resource: &Resource) -> bool {
        self.iter().any(|whole| whole.contains(resource))
    }

    fn add_entry(&mut self, more: Entry) {
        if more.resource.is_empty() || more.copies == 0 {
            return;
        }
        match self.entries.iter_mut().find(|entry| entry.resource.is_addable_to(&more.resource)) {
            Some(entry) if entry.resource.shared => entry.copies += more.copies,
            Some(entry) => entry.resource.value.add(&more.resource.value),
            None => self.entries.push(more),
        }
    }

    fn subtract_entry(&mut self, less: &Entry) {
        let found = self.entries.iter().position(|entry| entry.resource.is_subtractable(&less.resource));
        let Some(index) = found else { return };
        let entry = &mut self.entries[index];
        if entry.resource.shared {
            entry.copies = entry.copies.saturating_sub(less.copies);
        } else {
            entry.resource.value.subtract(&less.resource.value);
        }
        if entry.copies == 0 || entry.resource.is_empty() {
            self.entries.remove(index);
        }
    }
}

impl PartialEq for Resources {
    fn eq(&self, other: &Self) -> bool {
        self.contains(other) && other.contains(self)
    }
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Self {
        [resource].into_iter().collect()
    }
}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut all = Self::new();
        resources.into_iter().for_each(|resource| all.insert(resource));
        all
    }
}

impl AddAssign<&Self> for Resources {
    fn add_assign(&mut self, other: &Self) {
        other.entries.iter().for_each(|entry| self.add_entry(entry.clone()));
    }
}

impl AddAssign for Resources {
    fn add_assign(&mut self, other: Self) {
        other.entries.into_iter().for_each(|entry| self.add_entry(entry));
    }
}

impl SubAssign<&Self> for Resources {
    fn sub_assign(&mut self, other: &Self) {
        other.entries.iter().for_each(|entry| self.subtract_entry(entry));
    }
}

impl SubAssign for Resources {
    fn sub_assign(&mut self, other: Self) {
        *self -= &other;
    }
}

impl Add for Resources {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Add<&Self> for Resources {
    type Output = Self;
    fn add(mut self, other: &Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Resources {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self -= &other;
        self
    }
}

impl Sub<&Self> for Resources {
    type Output = Self;
    fn sub(mut self, other: &Self) -> Self {
        self -= other;
        self
    }
}

impl std::iter::Sum for Resources {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::new(), Add::add)
    }
}
