//! Offer constraints: which agents a framework wants offers from, by their attributes. Master and scheduler judge alike.
//!
//! Groups of a role are alternatives, constraints of a group must all hold. A text predicate lets attributes that are
//! not text pass; of several attributes with one name only the first counts (M077 to M089).

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use crate::v1::{
    AgentInfo, Attribute, DomainInfo, Offer,
    scheduler::{
        AttributeConstraint, OfferConstraints,
        attribute_constraint::{
            predicate::Predicate,
            selector::{PseudoattributeType, Selector},
        },
    },
    value,
};

/// Compiled sizes (bytes) up to which a pattern is accepted, and up to which it is merely too complex.
/// Chosen so that `(a+){10}`, `(a+){50}` and `(a+){500}` are judged as by Apache Mesos' default limits.
const ACCEPTED_SIZE: usize = 6_500;
const COMPILED_SIZE: usize = 60_000;

/// A framework's constraints, ready to be tested.
#[derive(Clone, Debug, Default)]
pub struct Constraints(BTreeMap<String, Vec<Vec<Constraint>>>);

#[derive(Clone, Debug)]
struct Constraint {
    selector: Selector,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Exists,
    NotExists,
    Equals(String),
    NotEquals(String),
    Matches(Regex),
    NotMatches(Regex),
}

impl Constraints {
    /// Checks and compiles; the error says what is wrong.
    pub fn compile(constraints: &OfferConstraints) -> Result<Self, String> {
        let mut roles = BTreeMap::new();
        for (role, of_role) in &constraints.role_constraints {
            if of_role.groups.is_empty() {
                return Err(format!(
                    "'OfferConstraints::role_constraints' has an empty 'RoleConstraints::groups' for role {role}"
                ));
            }
            let mut groups = Vec::new();
            for group in &of_role.groups {
                if group.attribute_constraints.is_empty() {
                    // Without the space, as Apache Mesos has it.
                    return Err(format!(
                        "'OfferConstraints::RoleConstraints::groups' for role {role}contains an empty \
                         RoleConstraints::Group"
                    ));
                }
                let compiled: Result<Vec<_>, _> = group.attribute_constraints.iter().map(compile).collect();
                let wrong = |reason| format!("A role {role} has an invalid 'AttributeConstraint': {reason}");
                groups.push(compiled.map_err(wrong)?);
            }
            roles.insert(role.clone(), groups);
        }
        Ok(Self(roles))
    }

    /// Whether a framework wants offers of an agent in a role.
    pub fn allow(&self, role: &str, agent: &Traits<'_>) -> bool {
        let Some(groups) = self.0.get(role) else { return true };
        groups.is_empty() || groups.iter().any(|group| group.iter().all(|constraint| constraint.holds(agent)))
    }
}

/// What of an agent is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits<'a> {
    pub hostname: &'a str,
    pub attributes: &'a [Attribute],
    pub region: Option<&'a str>,
    pub zone: Option<&'a str>,
}

impl<'a> Traits<'a> {
    fn new(hostname: &'a str, attributes: &'a [Attribute], domain: Option<&'a DomainInfo>) -> Self {
        let domain = domain.and_then(|domain| domain.fault_domain.as_ref());
        let (region, zone) = domain.map(|domain| (domain.region.name.as_str(), domain.zone.name.as_str())).unzip();
        Self { hostname, attributes, region, zone }
    }
}

impl<'a> From<&'a AgentInfo> for Traits<'a> {
    fn from(agent: &'a AgentInfo) -> Self {
        Self::new(&agent.hostname, &agent.attributes, agent.domain.as_ref())
    }
}

/// Of the agent that makes the offer.
impl<'a> From<&'a Offer> for Traits<'a> {
    fn from(offer: &'a Offer) -> Self {
        Self::new(&offer.hostname, &offer.attributes, offer.domain.as_ref())
    }
}

fn compile(constraint: &AttributeConstraint) -> Result<Constraint, String> {
    let selector = constraint.selector.selector.clone();
    let selector = selector.ok_or(
        "Exactly one of 'AttributeConstraint::Selector::name' or \
         'AttributeConstraint::Selector::pseudoattribute_type' must be set",
    )?;
    if let Selector::PseudoattributeType(kind) = selector
        && PseudoattributeType::try_from(kind).unwrap_or_default() == PseudoattributeType::Unknown
    {
        return Err("Unknown pseudoattribute type".to_owned());
    }
    let predicate = constraint.predicate.predicate.as_ref().ok_or("Unknown predicate type")?;
    let test = match predicate {
        Predicate::Exists(_) => Test::Exists,
        Predicate::NotExists(_) => Test::NotExists,
        Predicate::TextEquals(text) => Test::Equals(text.value.clone()),
        Predicate::TextNotEquals(text) => Test::NotEquals(text.value.clone()),
        Predicate::TextMatches(text) => Test::Matches(pattern(&text.regex)?),
        Predicate::TextNotMatches(text) => Test::NotMatches(pattern(&text.regex)?),
    };
    Ok(Constraint { selector, test })
}

/// A pattern that must match the whole text.
fn pattern(regex: &str) -> Result<Regex, String> {
    if let Some(repetition) = repeated_repetition(regex) {
        return Err(format!("Failed to construct regex from pattern '{regex}': bad repetition operator: {repetition}"));
    }
    let whole = format!("^(?:{})$", ascii_classes(regex));
    let build = |limit| RegexBuilder::new(&whole).size_limit(limit).build();
    match build(ACCEPTED_SIZE) {
        Ok(regex) => Ok(regex),
        Err(regex::Error::CompiledTooBig(_)) if build(COMPILED_SIZE).is_ok() => {
            Err(format!("Regex '{regex}' is too complex"))
        }
        Err(regex::Error::CompiledTooBig(_)) => {
            Err(format!("Failed to construct regex from pattern '{regex}': pattern too large - compile failed"))
        }
        Err(error) => Err(format!("Failed to construct regex from pattern '{regex}': {error}")),
    }
}

/// A repetition of a repetition, like `**`, which RE2 refuses; outside of character classes.
fn repeated_repetition(regex: &str) -> Option<&str> {
    let (mut class, mut escaped, mut last) = (false, false, None::<usize>);
    for (index, letter) in regex.char_indices() {
        let operator = !escaped && !class && matches!(letter, '*' | '+' | '?');
        match last {
            // A question mark makes the operator before it lazy.
            Some(_) if operator && letter == '?' => last = None,
            Some(start) if operator => return regex.get(start..=index),
            _ => last = operator.then_some(index),
        }
        class = !escaped && (letter == '[' || class && letter != ']');
        escaped = !escaped && letter == '\\';
    }
    None
}

/// `\d`, `\s` and `\w` mean ASCII in the syntax of RE2, which constraints are written in.
fn ascii_classes(regex: &str) -> String {
    let mut translated = String::with_capacity(regex.len());
    let mut letters = regex.chars();
    let mut inside = false;
    while let Some(letter) = letters.next() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            '\\' => {
                let Some(escaped) = letters.next() else {
                    translated.push(letter);
                    break;
                };
                let class = match escaped {
                    'd' => "[:digit:]",
                    'D' => "[:^digit:]",
                    's' => "[:space:]",
                    'S' => "[:^space:]",
                    'w' => "[:word:]",
                    'W' => "[:^word:]",
                    other => {
                        translated.extend([letter, other]);
                        continue;
                    }
                };
                if inside {
                    translated.push_str(class);
                } else {
                    translated.extend(["[", class, "]"]);
                }
                continue;
            }
            _ => {}
        }
        translated.push(letter);
    }
    translated
}

/// What a selector finds.
enum Found<'a> {
    Nothing,
    Text(&'a str),
    Other,
}

impl Constraint {
    fn holds(&self, agent: &Traits<'_>) -> bool {
        let found = self.find(agent);
        match (&self.test, found) {
            (Test::Exists, found) => !matches!(found, Found::Nothing),
            (Test::NotExists, found) => matches!(found, Found::Nothing),
            (Test::Equals(_) | Test::Matches(_), Found::Nothing) => false,
            (Test::NotEquals(_) | Test::NotMatches(_), Found::Nothing) | (_, Found::Other) => true,
            (Test::Equals(wanted), Found::Text(text)) => text == wanted,
            (Test::NotEquals(unwanted), Found::Text(text)) => text != unwanted,
            (Test::Matches(wanted), Found::Text(text)) => wanted.is_match(text),
            (Test::NotMatches(unwanted), Found::Text(text)) => !unwanted.is_match(text),
        }
    }

    fn find<'a>(&self, agent: &Traits<'a>) -> Found<'a> {
        let text = |text: Option<&'a str>| text.map_or(Found::Nothing, Found::Text);
        match &self.selector {
            Selector::AttributeName(name) => {
                agent.attributes.iter().find(|one| one.name == *name).map_or(Found::Nothing, value_of)
            }
            Selector::PseudoattributeType(kind) => match PseudoattributeType::try_from(*kind) {
                Ok(PseudoattributeType::Hostname) => Found::Text(agent.hostname),
                Ok(PseudoattributeType::Region) => text(agent.region),
                Ok(PseudoattributeType::Zone) => text(agent.zone),
                Ok(PseudoattributeType::Unknown) | Err(_) => Found::Nothing,
            },
        }
    }
}

fn value_of(attribute: &Attribute) -> Found<'_> {
    match &attribute.text {
        Some(text) if attribute.r#type == value::Type::Text as i32 => Found::Text(&text.value),
        _ => Found::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{json, resources::attributes, v1};

    fn constraints(groups: &[Value]) -> OfferConstraints {
        let groups: Vec<Value> = groups.iter().map(|group| json!({"attribute_constraints": group})).collect();
        json::from_value(&json!({"role_constraints": {"r": {"groups": groups}}})).expect("constraints")
    }

    fn on(name: &str, predicate: Value) -> Value {
        json!({"selector": {"attribute_name": name}, "predicate": predicate})
    }

    fn agent(text: &str) -> v1::AgentInfo {
        v1::AgentInfo {
            hostname: "host-7".to_owned(),
            attributes: attributes::parse(text).expect("attributes"),
            ..Default::default()
        }
    }

    #[test]
    fn predicates_judge_attributes_as_mesos_does() {
        // M077 to M087
        let bar = |predicate: Value| vec![json!([on("bar", predicate)])];
        let both = vec![json!([on("foo", json!({"exists": {}})), on("bar", json!({"not_exists": {}}))])];
        let either = vec![json!([on("foo", json!({"exists": {}}))]), json!([on("bar", json!({"exists": {}}))])];
        let host = |regex: &str| {
            vec![
                json!([{"selector": {"pseudoattribute_type": "HOSTNAME"}, "predicate": {"text_matches": {"regex": regex}}}]),
            ]
        };
        let cases: Vec<(Vec<Value>, &[&str], &[&str])> = vec![
            (bar(json!({"exists": {}})), &["bar:x"], &["foo:x", ""]),
            (bar(json!({"not_exists": {}})), &["foo:x", ""], &["bar:x", "foo:x;bar:1"]),
            (
                bar(json!({"text_equals": {"value": "baz"}})),
                &["bar:baz", "bar:123", "bar:[1-17]"],
                &["bar:zab", "", "bar:foo;bar:baz"],
            ),
            (bar(json!({"text_not_equals": {"value": "baz"}})), &["bar:zab", "", "bar:123"], &["bar:baz"]),
            (
                bar(json!({"text_matches": {"regex": "a[a-z]+d"}})),
                &["bar:abcd", "bar:1"],
                &["bar:abcde", "bar:bcde", ""],
            ),
            (bar(json!({"text_not_matches": {"regex": "abc."}})), &["bar:bcde", "", "bar:1"], &["bar:abcd"]),
            (both, &["foo:x"], &["foo:x;bar:y", ""]),
            (either, &["foo:x", "bar:x"], &["baz:x"]),
            (host(r"host-\d"), &[""], &[]),
            (host(r"[\w]+"), &[], &[""]),
        ];
        assert!(Constraints::default().allow("r", &Traits::from(&agent("bar:x"))), "no constraints exclude nothing");
        assert!(Constraints::compile(&constraints(&[])).is_err(), "a role with constraints has groups");
        for (groups, kept, excluded) in cases {
            let compiled = Constraints::compile(&constraints(&groups)).expect("lawful");
            for text in kept {
                assert!(compiled.allow("r", &Traits::from(&agent(text))), "{groups:?} keeps {text}");
            }
            for text in excluded {
                assert!(!compiled.allow("r", &Traits::from(&agent(text))), "{groups:?} excludes {text}");
                assert!(compiled.allow("other", &Traits::from(&agent(text))), "other roles are free");
            }
        }
    }

    #[test]
    fn patterns_have_limits() {
        // M088, M089
        let judge = |regex: &str| {
            let group = json!([on("bar", json!({"text_matches": {"regex": regex}}))]);
            Constraints::compile(&constraints(&[group])).map(drop)
        };
        for fine in ["(a+){10}", r"\w+\.example\.com", r"[\w.-]+", ".*"] {
            assert_eq!(judge(fine), Ok(()), "{fine}");
        }
        assert!(judge("(a+){50}").is_err_and(|reason| reason.contains("too complex")));
        assert!(judge("(a+){500}").is_err_and(|reason| reason.contains("pattern too large - compile failed")));
        assert!(judge("(").is_err());
    }
}
