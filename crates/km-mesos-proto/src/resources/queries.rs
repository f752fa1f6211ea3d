//! Questions to resources, and choices among them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Ranges, Reservation, Resource, Resources, Scalar, Value};

impl Resources {
    /// The objects for which `keep` says yes, with all their copies.
    pub fn filter(&self, keep: impl Fn(&Resource) -> bool) -> Self {
        Self { entries: self.entries.iter().filter(|entry| keep(&entry.resource)).cloned().collect() }
    }

    /// The amount of a scalar, over all roles; copies of shared ones count once.
    pub fn scalar(&self, name: &str) -> Scalar {
        self.get_scalar(name).unwrap_or_default()
    }

    /// As [`Self::scalar`], `None` when there is no such scalar.
    pub fn get_scalar(&self, name: &str) -> Option<Scalar> {
        let amounts =
            self.iter().filter(|resource| resource.name == name).filter_map(|resource| match resource.value {
                Value::Scalar(amount) => Some(amount),
                _ => None,
            });
        amounts.reduce(|sum, amount| sum + amount)
    }

    /// The numbers of a ranges resource, over all roles.
    pub fn ranges(&self, name: &str) -> Ranges {
        let mut all = Ranges::new();
        for resource in self.iter().filter(|resource| resource.name == name) {
            if let Value::Ranges(ranges) = &resource.value {
                all.add(ranges);
            }
        }
        all
    }

    /// The ports, over all roles.
    pub fn ports(&self) -> Ranges {
        self.ranges("ports")
    }

    /// The objects of a name.
    pub fn get(&self, name: &str) -> Self {
        self.filter(|resource| resource.name == name)
    }

    /// The names that occur.
    pub fn names(&self) -> BTreeSet<&str> {
        self.iter().map(|resource| resource.name.as_str()).collect()
    }

    /// How many copies of this very object there are.
    pub fn count(&self, resource: &Resource) -> u32 {
        self.entries.iter().find(|entry| entry.resource == *resource).map_or(0, |entry| entry.copies)
    }

    /// Reserved for exactly this role.
    pub fn reserved(&self, role: &str) -> Self {
        self.filter(|resource| resource.is_reserved() && resource.role() == role)
    }

    /// Reserved for any role.
    pub fn all_reserved(&self) -> Self {
        self.filter(Resource::is_reserved)
    }

    /// Reserved for no role.
    pub fn unreserved(&self) -> Self {
        self.filter(|resource| !resource.is_reserved())
    }

    /// What is reserved, by role.
    pub fn reservations(&self) -> BTreeMap<&str, Self> {
        let mut by_role = BTreeMap::<&str, Self>::new();
        for entry in self.entries.iter().filter(|entry| entry.resource.is_reserved()) {
            by_role.entry(entry.resource.role()).or_default().entries.push(entry.clone());
        }
        by_role
    }

    /// What a framework of this role may be offered: what is free, or reserved for the role or one above it.
    pub fn allocatable_to(&self, role: &str) -> Self {
        self.filter(|resource| resource.is_allocatable_to(role))
    }

    /// What is allocated, by role.
    pub fn allocations(&self) -> BTreeMap<&str, Self> {
        let mut by_role = BTreeMap::<&str, Self>::new();
        for entry in &self.entries {
            if let Some(role) = &entry.resource.allocation {
                by_role.entry(role).or_default().entries.push(entry.clone());
            }
        }
        by_role
    }

    /// May be taken back at any time.
    pub fn revocable(&self) -> Self {
        self.filter(|resource| resource.revocable)
    }

    /// Stays until given back.
    pub fn non_revocable(&self) -> Self {
        self.filter(|resource| !resource.revocable)
    }

    /// Usable by several tasks at once.
    pub fn shared(&self) -> Self {
        self.filter(|resource| resource.shared)
    }

    /// Usable by one task at a time.
    pub fn non_shared(&self) -> Self {
        self.filter(|resource| !resource.shared)
    }

    /// The persistent volumes.
    pub fn persistent_volumes(&self) -> Self {
        self.filter(Resource::is_persistent_volume)
    }

    /// Marks all as allocated to a role.
    pub fn allocate(&mut self, role: &str) {
        *self = self.map(|resource| resource.allocation = Some(role.to_owned()));
    }

    /// Marks all as allocated to nobody.
    pub fn unallocate(&mut self) {
        *self = self.map(|resource| resource.allocation = None);
    }

    /// The same, allocated to a role.
    #[must_use]
    pub fn allocated(&self, role: &str) -> Self {
        self.map(|resource| resource.allocation = Some(role.to_owned()))
    }

    /// The same, allocated to nobody.
    #[must_use]
    pub fn unallocated(&self) -> Self {
        self.map(|resource| resource.allocation = None)
    }

    /// The same without reservations.
    #[must_use]
    pub fn to_unreserved(&self) -> Self {
        self.map(|resource| resource.reservations.clear())
    }

    /// The same with one more level of reservation.
    #[must_use]
    pub fn push_reservation(&self, reservation: &Reservation) -> Self {
        self.map(|resource| resource.reservations.push(reservation.clone()))
    }

    /// The same with the last level of reservation taken off.
    #[must_use]
    pub fn pop_reservation(&self) -> Self {
        self.map(|resource| {
            resource.reservations.pop();
        })
    }

    /// All objects changed, and merged anew.
    fn map(&self, change: impl Fn(&mut Resource)) -> Self {
        let mut changed = Self::new();
        for entry in &self.entries {
            let mut entry = entry.clone();
            change(&mut entry.resource);
            changed.add_entry(entry);
        }
        changed
    }
}

impl Resource {
    /// The same with only those reservations that it has in common with `other`: what both were before they were
    /// refined.
    #[must_use]
    pub fn reservation_ancestor(&self, other: &Self) -> Self {
        let common = self.reservations.iter().zip(&other.reservations).take_while(|(left, right)| left == right);
        let common = common.map(|(left, _)| left.clone()).collect();
        Self { reservations: common, ..self.clone() }
    }
}

/// Do any two of the parts have a number or a thing of one name in common?
pub fn overlaps(parts: &[Resources]) -> bool {
    let mut seen: Vec<&Resource> = Vec::new();
    for part in parts {
        let clash = part.iter().any(|resource| seen.iter().any(|earlier| share_items(earlier, resource)));
        if clash {
            return true;
        }
        seen.extend(part.iter());
    }
    false
}

fn share_items(left: &Resource, right: &Resource) -> bool {
    left.name == right.name
        && match (&left.value, &right.value) {
            (Value::Ranges(left), Value::Ranges(right)) => left.overlaps(right),
            (Value::Set(left), Value::Set(right)) => !left.is_disjoint(right),
            _ => false,
        }
}
