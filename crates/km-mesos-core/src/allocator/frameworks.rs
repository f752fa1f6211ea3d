//! The frameworks that take part: their roles, what they can use, and what they want to hear of.

use std::collections::{BTreeMap, BTreeSet};

use km_mesos_proto::{
    constraints::Constraints,
    resources::Quantities,
    v1::{self, framework_info::capability::Type as Capability, scheduler::OfferConstraints},
};

use super::{Allocator, filters::Filters, quota, sorter::Sorter};
use crate::framework_info::{has_capability, roles_of};

#[derive(Debug)]
pub(super) struct FrameworkState {
    pub active: bool,
    pub roles: BTreeSet<String>,
    pub suppressed: BTreeSet<String>,
    pub refinement: bool,
    pub gpus: bool,
    pub shared: bool,
    pub revocable: bool,
    pub constraints: Constraints,
    /// The role's own minimum, where it has one: any one of these, or anything at all when the list is empty.
    pub min_allocatable: BTreeMap<String, Vec<Quantities>>,
    pub filters: Filters,
    /// What it is offered or uses, by role.
    pub held: BTreeMap<String, Quantities>,
}

impl Allocator {
    /// Adds a framework (inactive) or brings what is known of it up to date. Roles that it left lose their filters.
    pub fn put_framework(
        &mut self,
        id: &str,
        info: &v1::FrameworkInfo,
        constraints: Option<&OfferConstraints>,
        suppressed: BTreeSet<String>,
    ) {
        let has = |capability| has_capability(info, capability);
        let roles = roles_of(info);
        // Constraints were compiled once before they came here, so a failure means none.
        let constraints = constraints.map(Constraints::compile).and_then(Result::ok).unwrap_or_default();
        let old = self.frameworks.remove(id);
        let (active, mut filters, held) = match old {
            Some(mut old) => {
                // To stop suppressing a role is to revive it.
                for role in old.suppressed.difference(&suppressed) {
                    old.filters.clear_role(role);
                }
                (old.active, old.filters, old.held)
            }
            None => (false, Filters::default(), BTreeMap::new()),
        };
        filters.retain_roles(&roles);
        let state = FrameworkState {
            active,
            suppressed,
            refinement: has(Capability::ReservationRefinement),
            gpus: has(Capability::GpuResources),
            shared: has(Capability::SharedResources),
            revocable: has(Capability::RevocableResources),
            constraints,
            min_allocatable: quota::min_allocatable_of(info),
            filters,
            held,
            roles,
        };
        self.frameworks.insert(id.to_owned(), state);
        self.sync_membership(id);
        self.consider_all();
    }

    /// Whether a framework may be offered anything. Becoming active makes all agents candidates.
    pub fn set_framework_active(&mut self, id: &str, active: bool) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        framework.active = active;
        if !active {
            // Mesos keeps no filters over a disconnection.
            framework.filters = Filters::default();
        }
        self.sync_membership(id);
        if active {
            self.consider_all();
        }
    }

    /// Forgets a framework. What it held must have been recovered before.
    pub fn remove_framework(&mut self, id: &str) {
        self.frameworks.remove(id);
        self.sync_membership(id);
    }

    /// Brings the sorters in line with a framework's roles, activity and suppression.
    pub(super) fn sync_membership(&mut self, id: &str) {
        let framework = self.frameworks.get(id);
        let mut concerned: BTreeSet<String> =
            self.members.iter().filter(|(_, sorter)| sorter.contains(id)).map(|(role, _)| role.clone()).collect();
        if let Some(framework) = framework {
            concerned.extend(framework.roles.iter().cloned());
            concerned.extend(framework.held.keys().cloned());
        }
        for role in concerned {
            let member = self.frameworks.get(id).filter(|framework| {
                framework.roles.contains(&role) || framework.held.get(&role).is_some_and(|held| !held.is_empty())
            });
            let takes_part = member.is_some_and(|framework| {
                framework.active && framework.roles.contains(&role) && !framework.suppressed.contains(&role)
            });
            let stays = member.is_some();
            let total = self.roles.total().clone();
            let sorter = self.members.entry(role.clone()).or_insert_with(|| {
                let mut sorter = Sorter::default();
                sorter.add_agent("pool", total);
                sorter
            });
            match (stays, takes_part) {
                (false, _) => sorter.remove(id),
                (true, true) => {
                    sorter.add(id);
                    sorter.activate(id);
                }
                (true, false) => {
                    sorter.add(id);
                    sorter.deactivate(id);
                }
            }
            if sorter.count() == 0 {
                self.members.remove(&role);
                self.roles.remove(&role);
            } else {
                self.roles.add(&role);
                self.roles.activate(&role);
            }
        }
    }

    /// Ends all filters of the roles and their suppression.
    pub fn revive(&mut self, id: &str, roles: &BTreeSet<String>) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        for role in roles {
            framework.suppressed.remove(role);
            framework.filters.clear_role(role);
        }
        self.sync_membership(id);
        self.consider_all();
    }

    /// Stops offers for the roles.
    pub fn suppress(&mut self, id: &str, roles: &BTreeSet<String>) {
        let Some(framework) = self.frameworks.get_mut(id) else { return };
        framework.suppressed.extend(roles.iter().cloned());
        self.sync_membership(id);
    }
}
