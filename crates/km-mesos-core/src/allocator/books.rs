//! The allocator's books: who holds how much, for the sorters.

use std::collections::BTreeSet;

use km_mesos_proto::resources::{Quantities, Resources};

use super::{Allocator, scalars::scalars_by_role};

impl Allocator {
    /// Notes that a framework holds resources (allocated) from now on.
    pub(super) fn book(&mut self, framework: &str, resources: &Resources) {
        for (role, given) in scalars_by_role(&resources.unreserved()) {
            self.loose.entry(role).or_default().add_all(&given);
        }
        for (role, given) in scalars_by_role(resources) {
            self.enrol(framework, &role, &given, true);
            self.roles.allocated(&role, &given);
            if let Some(sorter) = self.members.get_mut(&role) {
                sorter.allocated(framework, &given);
            }
        }
    }

    /// Notes that a framework gave resources (allocated) back.
    pub(super) fn unbook(&mut self, framework: &str, resources: &Resources) {
        for (role, returned) in scalars_by_role(&resources.unreserved()) {
            self.loose.entry(role).or_default().subtract_all(&returned);
        }
        for (role, returned) in scalars_by_role(resources) {
            self.roles.unallocated(&role, &returned);
            if let Some(sorter) = self.members.get_mut(&role) {
                sorter.unallocated(framework, &returned);
            }
            self.enrol(framework, &role, &returned, false);
        }
    }

    /// Notes that what a framework holds changed its form.
    pub(super) fn rebook(&mut self, framework: &str, before: &Resources, after: &Resources) {
        for (role, lost) in scalars_by_role(&before.unreserved()) {
            self.loose.entry(role).or_default().subtract_all(&lost);
        }
        for (role, won) in scalars_by_role(&after.unreserved()) {
            self.loose.entry(role).or_default().add_all(&won);
        }
        let (before, after) = (scalars_by_role(before), scalars_by_role(after));
        for role in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let nothing = Quantities::default();
            let (old, new) = (before.get(role).unwrap_or(&nothing), after.get(role).unwrap_or(&nothing));
            self.roles.replace(role, old, new);
            if let Some(sorter) = self.members.get_mut(role) {
                sorter.replace(framework, old, new);
            }
            if let Some(held) = self.frameworks.get_mut(framework).and_then(|state| state.held.get_mut(role)) {
                held.subtract_all(old);
                held.add_all(new);
            }
        }
    }

    /// Keeps a framework in a role's sorter for as long as it holds something of that role, even after it left it.
    fn enrol(&mut self, framework: &str, role: &str, amount: &Quantities, more: bool) {
        let Some(state) = self.frameworks.get_mut(framework) else { return };
        let held = state.held.entry(role.to_owned()).or_default();
        if more {
            held.add_all(amount);
        } else {
            held.subtract_all(amount);
        }
        let foreign = !state.roles.contains(role);
        if held.is_empty() {
            state.held.remove(role);
        }
        if foreign {
            self.sync_membership(framework);
        }
    }
}
