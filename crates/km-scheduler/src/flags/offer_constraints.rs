//! `--mesos-offer-constraints`: which agents the master is asked for.
//!
//! Three forms: constraints as pods have them (`[["rack","LIKE","r[12]"]]`), for all roles; the same by role
//! (`{"prod": [["rack","IS","r1"]]}`); and the JSON of Mesos' own `OfferConstraints`, which alone knows alternatives.

use std::collections::BTreeMap;

use km_mesos_proto::{
    constraints::Constraints,
    json,
    v1::scheduler::{
        AttributeConstraint, OfferConstraints,
        attribute_constraint::{
            Predicate, Selector,
            predicate::{self, TextEquals, TextMatches, TextNotMatches},
            selector::{self, PseudoattributeType},
        },
        offer_constraints::{RoleConstraints, role_constraints::Group},
    },
};
use km_placement::constraint::{self, Constraint, Field, Operator};
use serde_json::Value;

use super::{Flags, FlagsError};

impl Flags {
    /// # Errors
    /// Names the part that is wrong.
    pub(super) fn offer_constraints(&self) -> Result<OfferConstraints, FlagsError> {
        parse(self.mesos_offer_constraints.trim(), &self.subscribed_roles())
            .map_err(|reason| FlagsError { flag: "mesos-offer-constraints", reason })
    }
}

fn parse(text: &str, roles: &[String]) -> Result<OfferConstraints, String> {
    if text.is_empty() {
        return Ok(OfferConstraints::default());
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| format!("not JSON such as [[\"rack\",\"LIKE\",\"r[12]\"]]: {error}"))?;
    let constraints = match value {
        Value::Object(by_role) if by_role.contains_key("role_constraints") => {
            let value = Value::Object(by_role);
            json::from_value(&value).map_err(|error| format!("no OfferConstraints of Mesos: {error}"))?
        }
        Value::Object(by_role) => {
            let of_role = |(role, list): (String, Value)| {
                let group = group(&list).map_err(|reason| format!("role {role}: {reason}"))?;
                Ok((role, group))
            };
            in_roles(by_role.into_iter().map(of_role).collect::<Result<_, String>>()?)
        }
        list => {
            let group = group(&list)?;
            in_roles(roles.iter().map(|role| (role.clone(), group.clone())).collect())
        }
    };
    if let Some(role) = constraints.role_constraints.keys().find(|role| !roles.contains(role)) {
        return Err(format!("'{role}' is none of the roles of offers: {}", roles.join(", ")));
    }
    // As the master will: with its words, and its limits for patterns.
    Constraints::compile(&constraints).map(|_| constraints)
}

fn in_roles(groups: BTreeMap<String, Group>) -> OfferConstraints {
    let of_role = |(role, group)| (role, RoleConstraints { groups: vec![group] });
    OfferConstraints { role_constraints: groups.into_iter().map(of_role).collect() }
}

/// Constraints that must all hold.
fn group(list: &Value) -> Result<Group, String> {
    let read = constraint::parse(&list.to_string()).map_err(|error| error.to_string())?;
    if read.is_empty() {
        return Err("no constraint at all: leave it out".to_owned());
    }
    let attribute_constraints = read.into_iter().map(attribute_constraint).collect::<Result<_, _>>()?;
    Ok(Group { attribute_constraints })
}

fn attribute_constraint(constraint: Constraint) -> Result<AttributeConstraint, String> {
    let shown = constraint.to_string();
    let of = |kind: PseudoattributeType| selector::Selector::PseudoattributeType(kind as i32);
    let selector = match constraint.field {
        Field::Hostname => of(PseudoattributeType::Hostname),
        Field::Region => of(PseudoattributeType::Region),
        Field::Zone => of(PseudoattributeType::Zone),
        Field::Attribute(name) => selector::Selector::AttributeName(name),
    };
    let predicate = match constraint.operator {
        Operator::Like(pattern) | Operator::Unlike(pattern) if pattern.as_str().is_empty() => {
            return Err(format!("{shown} needs a regular expression as value"));
        }
        Operator::Like(pattern) => {
            predicate::Predicate::TextMatches(TextMatches { regex: pattern.as_str().to_owned() })
        }
        Operator::Unlike(pattern) => {
            predicate::Predicate::TextNotMatches(TextNotMatches { regex: pattern.as_str().to_owned() })
        }
        Operator::Is(value) | Operator::Cluster(Some(value)) => predicate::Predicate::TextEquals(TextEquals { value }),
        Operator::Cluster(None) | Operator::Unique | Operator::GroupBy(_) | Operator::MaxPer(_) => {
            return Err(format!(
                "{shown} depends on where other pods are, which Mesos doesn't know: there are LIKE, UNLIKE, IS and \
                 CLUSTER with a value"
            ));
        }
    };
    Ok(AttributeConstraint {
        selector: Selector { selector: Some(selector) },
        predicate: Predicate { predicate: Some(predicate) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        let roles = ["prod", "test"].map(str::to_owned);
        parse(text, &roles).map(|constraints| json::to_value(&constraints))
    }

    #[test]
    fn all_forms_say_the_same() {
        let mesos = r#"{"role_constraints": {"prod": {"groups": [{"attribute_constraints": [
            {"selector": {"attribute_name": "rack"}, "predicate": {"text_matches": {"regex": "r[12]"}}},
            {"selector": {"pseudoattribute_type": "HOSTNAME"}, "predicate": {"text_not_matches": {"regex": "old.*"}}},
            {"selector": {"pseudoattribute_type": "ZONE"}, "predicate": {"text_equals": {"value": "a"}}}
        ]}]}}}"#;
        let list = r#"[["rack","LIKE","r[12]"],["hostname","UNLIKE","old.*"],["@zone","CLUSTER","a"]]"#;
        let expected = read(mesos).expect("it is well-formed");
        assert_eq!(read(&format!(r#"{{"prod": {list}}}"#)), Ok(expected.clone()));
        let for_all = read(list).expect("it is well-formed");
        for role in ["prod", "test"] {
            assert_eq!(for_all["role_constraints"][role], expected["role_constraints"]["prod"], "{role}");
        }
        assert_eq!(parse("", &[]), Ok(OfferConstraints::default()));
        let single = read(r#"["rack","IS","r1"]"#).expect("one constraint needs no list around it");
        let predicate = "/role_constraints/test/groups/0/attribute_constraints/0/predicate/text_equals/value";
        assert_eq!(single.pointer(predicate), Some(&Value::from("r1")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            ("rack", "not JSON such as"),
            (r#"["rack"]"#, "2 or 3 elements"),
            (r#"[["rack","LIKE"]]"#, "[rack, LIKE, ] needs a regular expression"),
            ("[]", "no constraint at all"),
            (r#"[["rack","LIKES","r"]]"#, "\"LIKES\" is no operator"),
            (r#"[["rack","LIKE","("]]"#, "LIKE needs a regular expression"),
            (r#"[["rack","LIKE","(a+){500}"]]"#, "pattern too large"),
            (r#"[["rack","UNIQUE"]]"#, "[rack, UNIQUE] depends on where other pods are"),
            (r#"[["rack","CLUSTER"]]"#, "depends on where other pods are"),
            (r#"{"dev": [["rack","IS","a"]]}"#, "'dev' is none of the roles of offers: prod, test"),
            (r#"{"prod": [["rack","IS"," "]]}"#, "role prod: IS needs a text or number"),
            (r#"{"role_constraints": {"prod": {}}}"#, "empty 'RoleConstraints::groups' for role prod"),
            (r#"{"role_constraints": {"prod": {"groups": 1}}}"#, "no OfferConstraints of Mesos"),
            (
                r#"{"role_constraints": {"prod": {"groups": [{"attribute_constraints": [
                    {"selector": {}, "predicate": {"exists": {}}}]}]}}}"#,
                "A role prod has an invalid 'AttributeConstraint'",
            ),
        ];
        for (text, reason) in table {
            let error = read(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
