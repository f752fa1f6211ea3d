//! Quota of top-level roles: guarantees that are kept free for them, and limits they may not exceed.
//!
//! A role consumes what is reserved for it or a role below it, in use or not, and what else these are offered or use.

use std::collections::BTreeMap;

use km_mesos_proto::{
    resources::{Limits, Quantities, Resources, Scalar},
    v1,
};

use super::{Allocator, stock::sum_within};

/// One role's quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    pub guarantees: Quantities,
    pub limits: Limits,
}

impl Quota {
    /// Reads a lawful configuration.
    pub fn from_config(config: &v1::quota::QuotaConfig) -> Self {
        let mut quota = Self::default();
        for (name, amount) in &config.guarantees {
            quota.guarantees.add(name, Scalar::from_f64(amount.value));
        }
        for (name, amount) in &config.limits {
            quota.limits.set(name, Scalar::from_f64(amount.value));
        }
        quota
    }

    /// The message of it.
    pub fn to_config(&self, role: &str) -> v1::quota::QuotaConfig {
        let scalar = |(name, amount): (&str, Scalar)| (name.to_owned(), v1::value::Scalar { value: amount.to_f64() });
        v1::quota::QuotaConfig {
            role: role.to_owned(),
            guarantees: self.guarantees.iter().map(scalar).collect(),
            limits: self.limits.iter().map(scalar).collect(),
        }
    }

    /// The message of it from before there were limits.
    pub fn to_info(&self, role: &str) -> v1::quota::QuotaInfo {
        let resource = |(name, amount): (&str, Scalar)| v1::Resource {
            name: name.to_owned(),
            r#type: v1::value::Type::Scalar as i32,
            scalar: Some(v1::value::Scalar { value: amount.to_f64() }),
            ..v1::Resource::default()
        };
        let guarantee = self.guarantees.iter().map(resource).collect();
        v1::quota::QuotaInfo { role: Some(role.to_owned()), principal: None, guarantee }
    }

    /// No guarantee and no limit.
    pub fn is_default(&self) -> bool {
        self.guarantees.is_empty() && self.limits.iter().next().is_none()
    }
}

/// What quota leaves to give, during one allocation run.
#[derive(Default)]
pub(super) struct Room {
    /// What each role's guarantee still lacks.
    owed: BTreeMap<String, Quantities>,
    /// The same of all roles.
    owed_in_all: Quantities,
    /// What each role's limit still allows.
    left: BTreeMap<String, Limits>,
    /// What is free and reserved for nobody.
    free: Quantities,
}

impl Room {
    pub fn of(allocator: &mut Allocator) -> Self {
        let mut room = Self::default();
        if allocator.quotas.is_empty() {
            return room;
        }
        allocator.count_stock();
        for (name, quota) in &allocator.quotas {
            let consumed = allocator.counted(name);
            let mut lacks = quota.guarantees.clone();
            lacks.subtract_all(&consumed);
            room.owed_in_all.add_all(&lacks);
            room.owed.insert(name.clone(), lacks);
            let mut allows = quota.limits.clone();
            allows.subtract(&consumed);
            room.left.insert(name.clone(), allows);
        }
        room.free = allocator.stock.free().clone();
        room
    }

    pub fn has_guarantees(&self) -> bool {
        !self.owed_in_all.is_empty()
    }

    pub fn is_owed(&self, role: &str) -> bool {
        self.owed.get(role).is_some_and(|owed| !owed.is_empty())
    }

    /// Of a wish: what is reserved, and of the rest all that nobody else is owed and the role's limit allows: who is
    /// served first takes more than the guarantee. Nothing when none of what is owed is in it.
    pub fn guaranteed_part(&self, role: &str, wish: &Resources) -> Resources {
        let Some(owed) = self.owed.get(role) else { return Resources::new() };
        let unreserved = wish.unreserved();
        if !unreserved.names().into_iter().any(|name| owed.get(name) > Scalar::ZERO) {
            return Resources::new();
        }
        let others = |name: &str| self.owed_in_all.get(name).saturating_sub(owed.get(name));
        let limits = self.limits_for(role, &unreserved, others);
        wish.all_reserved() + unreserved.shrink_to_limits(&limits)
    }

    /// Of a wish: what is reserved, and of the rest what neither others are owed nor the role's limit forbids.
    pub fn allowed_part(&self, role: &str, wish: &Resources) -> Resources {
        if self.left.is_empty() {
            return wish.clone();
        }
        let unreserved = wish.unreserved();
        let limits = self.limits_for(role, &unreserved, |name| self.owed_in_all.get(name));
        wish.all_reserved() + unreserved.shrink_to_limits(&limits)
    }

    /// Per name the smaller of the role's limit and the free amount that is not owed.
    fn limits_for(&self, role: &str, resources: &Resources, owed: impl Fn(&str) -> Scalar) -> Limits {
        let mut limits = Limits::default();
        for name in resources.names() {
            let owed = owed(name);
            let surplus = (owed > Scalar::ZERO).then(|| self.free.get(name).saturating_sub(owed));
            let limit = self.left.get(role).and_then(|left| left.get(name));
            if let Some(most) = [surplus, limit].into_iter().flatten().min() {
                limits.set(name, most);
            }
        }
        limits
    }

    /// Notes that a role was given resources.
    pub fn take(&mut self, role: &str, resources: &Resources) {
        if self.left.is_empty() {
            return;
        }
        let given = Quantities::of(&resources.unreserved());
        if let Some(owed) = self.owed.get_mut(role) {
            self.owed_in_all.subtract_all(owed);
            owed.subtract_all(&given);
            self.owed_in_all.add_all(owed);
        }
        if let Some(left) = self.left.get_mut(role) {
            left.subtract(&given);
        }
        self.free.subtract_all(&given);
    }
}

impl Allocator {
    /// What a role and those below it consume of its quota, offers included.
    pub fn consumed(&mut self, name: &str) -> Quantities {
        self.count_stock();
        self.counted(name)
    }

    /// The same as of the last count.
    fn counted(&self, name: &str) -> Quantities {
        let mut consumed = self.stock.reserved(name);
        consumed.add_all(&sum_within(&self.loose, name));
        consumed
    }
}

/// A framework's own minima for offers, by role.
pub(super) fn min_allocatable_of(info: &v1::FrameworkInfo) -> BTreeMap<String, Vec<Quantities>> {
    let of_role = |filters: &v1::OfferFilters| {
        let least = filters.min_allocatable_resources.as_ref()?;
        let minimum = |quantities: &v1::offer_filters::ResourceQuantities| {
            let mut amounts = Quantities::default();
            for (name, amount) in &quantities.quantities {
                amounts.add(name, Scalar::from_f64(amount.value));
            }
            amounts
        };
        Some(least.quantities.iter().map(minimum).collect())
    };
    info.offer_filters.iter().filter_map(|(role, filters)| Some((role.clone(), of_role(filters)?))).collect()
}
