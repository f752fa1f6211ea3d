//! What agents have, summed for quota: what is reserved for each role, and what is free. Kept as agents change, so that it
//! costs what changed, however many agents there are.

use std::collections::{BTreeMap, BTreeSet};

use km_mesos_proto::resources::Quantities;

use super::{AgentState, Allocator};
use crate::master::validation::role;

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Stock {
    all: Counted,
    agents: BTreeMap<String, Counted>,
    /// Agents that changed, came or went since they were counted.
    changed: BTreeSet<String>,
}

/// What one agent has, or all have.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    /// What is reserved for each role, in use or not.
    reserved: BTreeMap<String, Quantities>,
    /// What is free and reserved for nobody.
    free: Quantities,
}

impl Counted {
    fn of(agent: &AgentState) -> Self {
        let reserved = agent.total.reservations().into_iter();
        Self {
            reserved: reserved.map(|(role, part)| (role.to_owned(), Quantities::of(&part))).collect(),
            free: if agent.active { Quantities::of(&agent.free().unreserved()) } else { Quantities::default() },
        }
    }

    fn add(&mut self, other: &Self) {
        self.free.add_all(&other.free);
        for (role, amounts) in &other.reserved {
            self.reserved.entry(role.clone()).or_default().add_all(amounts);
        }
    }

    fn subtract(&mut self, other: &Self) {
        self.free.subtract_all(&other.free);
        for (role, amounts) in &other.reserved {
            let Some(left) = self.reserved.get_mut(role) else { continue };
            left.subtract_all(amounts);
            if left.is_empty() {
                self.reserved.remove(role);
            }
        }
    }
}

impl Stock {
    /// Something about the agent changed that may count.
    pub fn changed(&mut self, agent: &str) {
        if !self.changed.contains(agent) {
            self.changed.insert(agent.to_owned());
        }
    }

    /// What is free on active agents and reserved for nobody.
    pub fn free(&self) -> &Quantities {
        &self.all.free
    }

    /// What is reserved for a role and those below it.
    pub fn reserved(&self, role: &str) -> Quantities {
        sum_within(&self.all.reserved, role)
    }
}

/// The sum over a role and those below it.
pub(super) fn sum_within(amounts: &BTreeMap<String, Quantities>, name: &str) -> Quantities {
    let mut sum = amounts.get(name).cloned().unwrap_or_default();
    let below = amounts.range(format!("{name}/")..).take_while(|(other, _)| role::is_below(other, name));
    below.for_each(|(_, more)| sum.add_all(more));
    sum
}

impl Allocator {
    /// Counts what changed since the last time.
    pub(super) fn count_stock(&mut self) {
        for id in std::mem::take(&mut self.stock.changed) {
            if let Some(before) = self.stock.agents.remove(&id) {
                self.stock.all.subtract(&before);
            }
            if let Some(agent) = self.agents.get(&id) {
                let counted = Counted::of(agent);
                self.stock.all.add(&counted);
                self.stock.agents.insert(id, counted);
            }
        }
        debug_assert_eq!(self.stock.all, self.look_through(), "the sums are those of all agents");
    }

    fn look_through(&self) -> Counted {
        let mut all = Counted::default();
        self.agents.values().for_each(|agent| all.add(&Counted::of(agent)));
        all.reserved.retain(|_, amounts| !amounts.is_empty());
        all
    }
}

#[cfg(test)]
mod tests {
    use km_mesos_proto::resources::Scalar;

    use super::*;

    #[test]
    fn only_a_role_and_those_below_it_count_for_its_quota() {
        let roles = ["a", "a-b", "a.b/c", "a/b", "a/b/c", "a0", "b/a"];
        let mut amounts = BTreeMap::new();
        for (place, role) in (0..).zip(roles) {
            let mut one = Quantities::default();
            one.add("cpus", Scalar::from_f64(f64::from(1 << place)));
            amounts.insert(role.to_owned(), one);
        }
        for asked in ["a", "a/b", "a-b", "b", "c"] {
            let within = |role: &&str| *role == asked || role::is_below(role, asked);
            let mut expected = Quantities::default();
            roles.iter().filter(|role| within(role)).for_each(|role| expected.add_all(&amounts[*role]));
            assert_eq!(sum_within(&amounts, asked), expected, "{asked}");
        }
    }
}
