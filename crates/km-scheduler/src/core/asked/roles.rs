//! What is asked for in each role, in words.

use km_mesos_proto::v1::{
    OfferFilters,
    scheduler::{
        AttributeConstraint, OfferConstraints,
        attribute_constraint::{
            predicate::Predicate,
            selector::{PseudoattributeType, Selector},
        },
    },
};
use serde::Serialize;

use crate::core::Framework;

/// A role in which the framework is subscribed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleLine {
    pub role: String,
    /// Which agents' offers are wanted; all when empty.
    pub agents: String,
    /// What an offer must hold; what the master decides when empty.
    pub minima: String,
}

pub(super) fn lines(framework: &Framework) -> Vec<RoleLine> {
    let line = |role: &String| RoleLine {
        role: role.clone(),
        agents: agents(&framework.constraints, role),
        minima: framework.info.offer_filters.get(role).map(minima).unwrap_or_default(),
    };
    framework.info.roles.iter().map(line).collect()
}

/// Such as `rack LIKE r[12], hostname UNLIKE old.* or @zone IS a`.
fn agents(constraints: &OfferConstraints, role: &str) -> String {
    let groups = constraints.role_constraints.get(role).map(|of_role| of_role.groups.as_slice()).unwrap_or_default();
    let group = |constraints: &[AttributeConstraint]| constraints.iter().map(words).collect::<Vec<_>>().join(", ");
    groups.iter().map(|one| group(&one.attribute_constraints)).collect::<Vec<_>>().join(" or ")
}

fn words(constraint: &AttributeConstraint) -> String {
    let field = match &constraint.selector.selector {
        Some(Selector::AttributeName(name)) => name,
        Some(Selector::PseudoattributeType(kind)) => match PseudoattributeType::try_from(*kind).unwrap_or_default() {
            PseudoattributeType::Hostname => "hostname",
            PseudoattributeType::Region => "@region",
            PseudoattributeType::Zone => "@zone",
            PseudoattributeType::Unknown => "?",
        },
        None => "?",
    };
    match &constraint.predicate.predicate {
        Some(Predicate::Exists(_)) => format!("{field} EXISTS"),
        Some(Predicate::NotExists(_)) => format!("{field} NOT_EXISTS"),
        Some(Predicate::TextEquals(text)) => format!("{field} IS {}", text.value),
        Some(Predicate::TextNotEquals(text)) => format!("{field} IS_NOT {}", text.value),
        Some(Predicate::TextMatches(text)) => format!("{field} LIKE {}", text.regex),
        Some(Predicate::TextNotMatches(text)) => format!("{field} UNLIKE {}", text.regex),
        None => format!("{field} ?"),
    }
}

/// As the flag has it: `cpus:0.5;mem:128|cpus:4`.
fn minima(filters: &OfferFilters) -> String {
    let any = filters.min_allocatable_resources.as_ref().map(|least| least.quantities.as_slice()).unwrap_or_default();
    let amounts = any.iter().map(|one| {
        let amounts = one.quantities.iter().map(|(name, amount)| format!("{name}:{}", amount.value));
        amounts.collect::<Vec<_>>().join(";")
    });
    amounts.collect::<Vec<_>>().join("|")
}
