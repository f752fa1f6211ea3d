//! Whether a node is one that a constraint accepts.

use std::collections::BTreeMap;

use super::{Attribute, Constraint, Field, Operator};
use crate::node::NodeFacts;

/// Label keys of the fault domain.
pub(crate) const REGION_LABEL: &str = "topology.kubernetes.io/region";
pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The placed instances of the same owner, seen through the constraint's field. Those without the field are a group of
/// their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// All of them.
    pub all: u32,
    /// Those with the same value as the node.
    pub here: u32,
    /// How many values they have.
    pub groups: u32,
    /// The fewest instances with one value.
    pub smallest: u32,
    /// Values with more than their share (see [`Operator::GroupBy`]).
    pub over_share: u32,
}

impl Field {
    /// The node's value.
    pub fn of(&self, name: &str, facts: &NodeFacts) -> Option<Attribute> {
        let label = |key: &str| facts.labels.get(key).map(|value| Attribute::text(value));
        match self {
            Self::Hostname => Some(Attribute::text(name)),
            Self::Region => label(REGION_LABEL),
            Self::Zone => label(ZONE_LABEL),
            Self::Attribute(name) => facts.attributes.get(name).cloned(),
        }
    }
}

impl Constraint {
    /// Whether the other instances matter.
    pub fn looks_around(&self) -> bool {
        matches!(self.operator, Operator::Unique | Operator::Cluster(None) | Operator::GroupBy(_) | Operator::MaxPer(_))
    }

    /// Whether a change in one group matters to the others.
    pub(crate) fn compares_groups(&self) -> bool {
        matches!(self.operator, Operator::GroupBy(_))
    }

    /// Instances that each group of `GROUP_BY` gets at least, of all that the owner wants.
    pub fn share(&self, instances: u32) -> u32 {
        match self.operator {
            Operator::GroupBy(Some(groups)) => instances / groups.max(1),
            _ => 0,
        }
    }

    /// Whether a node with that value takes one more instance. A missing value is accepted by `UNLIKE` alone.
    pub fn accepts(&self, value: Option<&Attribute>, placed: &Placed, instances: u32) -> bool {
        let Some(value) = value else { return matches!(self.operator, Operator::Unlike(_)) };
        match &self.operator {
            Operator::Unique => placed.here == 0,
            Operator::Cluster(Some(wanted)) => value.as_str() == wanted,
            Operator::Cluster(None) => placed.all == 0 || placed.here > 0,
            Operator::Like(pattern) => pattern.matches(value.as_str()),
            // The empty pattern refuses every value.
            Operator::Unlike(pattern) => pattern.regex.is_some() && !pattern.matches(value.as_str()),
            // A value that isn't used yet is always open.
            Operator::MaxPer(most) => placed.here == 0 || placed.here < *most,
            Operator::Is(wanted) => value.is(wanted),
            Operator::GroupBy(None) => placed.here == 0 || placed.here <= placed.smallest,
            Operator::GroupBy(Some(groups)) if placed.here == 0 => placed.groups < *groups,
            Operator::GroupBy(Some(groups)) => {
                let share = self.share(instances);
                let spare = instances % (*groups).max(1);
                placed.here < share || (placed.here == share && placed.over_share < spare)
            }
        }
    }
}

/// How many instances of each group are to go when `remove` are too many: with `GROUP_BY` from the largest groups, so
/// that they stay even; otherwise there is no preference, and nothing is said.
pub fn scale_down(constraint: &Constraint, running: &BTreeMap<String, u32>, remove: u32) -> BTreeMap<String, u32> {
    let mut gone = BTreeMap::new();
    if !matches!(constraint.operator, Operator::GroupBy(_)) {
        return gone;
    }
    let mut left = running.clone();
    for _ in 0..remove {
        let Some((group, count)) = left.iter_mut().max_by_key(|(_, count)| **count).filter(|(_, count)| **count > 0)
        else {
            break;
        };
        *count -= 1;
        *gone.entry(group.clone()).or_insert(0) += 1;
    }
    gone
}
