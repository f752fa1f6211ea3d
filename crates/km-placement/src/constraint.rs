//! Constraints as Marathon has them: `[field, operator, value]`, read from a pod's annotation.
//!
//! Rules: the Marathon documentation of constraints, and its source of 2021 where that says more. Two differences: the
//! field of a placed instance is that of its node now, not of the offer it came from; and `CLUSTER` without a value
//! follows any instance, since nobody remembers which was the first.

mod attribute;
mod judge;

pub use attribute::Attribute;
pub use judge::{Placed, scale_down};

use std::{fmt, hash};

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// Largest compiled pattern in bytes: a pattern is written by whoever may create pods.
const PATTERN_LIMIT: usize = 1 << 20;

/// One constraint. All of a pod's must accept its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constraint {
    pub field: Field,
    pub operator: Operator,
}

/// What of a node is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `hostname` and `@hostname`.
    Hostname,
    /// `@region` and `@zone`: the agent's fault domain.
    Region,
    Zone,
    /// An attribute of the agent.
    Attribute(String),
}

/// What is asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// No instance has the same value.
    Unique,
    /// That value; without one, the value of the others.
    Cluster(Option<String>),
    /// Spread evenly over so many values; without a number, over those seen so far.
    GroupBy(Option<u32>),
    /// The whole value matches, or doesn't.
    Like(Pattern),
    Unlike(Pattern),
    /// At most so many instances with the same value.
    MaxPer(u32),
    /// Equal text or number.
    Is(String),
}

/// A regular expression, compared by its text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// None for the empty pattern, which matches nothing.
    regex: Option<Regex>,
}

impl Pattern {
    fn new(text: &str) -> Result<Self, String> {
        let build = |pattern: &str| {
            let regex = RegexBuilder::new(pattern).size_limit(PATTERN_LIMIT).dot_matches_new_line(true).build();
            regex.map_err(|error| error.to_string())
        };
        // By itself first: a parenthesis too many would end the group that makes it match whole values.
        build(text)?;
        let regex = (!text.is_empty()).then(|| build(&format!("^(?:{text})$"))).transpose()?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn matches(&self, value: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(value))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl hash::Hash for Pattern {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// Why constraints can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConstraintError {
    #[error("not a JSON list of lists of texts like [[\"hostname\",\"UNIQUE\"]]: {0}")]
    Json(String),
    #[error("a constraint has 2 or 3 elements (field, operator, value), not {0}")]
    Length(usize),
    #[error("a constraint needs a field: hostname, @region, @zone or the name of an agent's attribute")]
    Field,
    #[error("{0:?} is no operator; there are UNIQUE, CLUSTER, GROUP_BY, LIKE, UNLIKE, MAX_PER, IS")]
    Operator(String),
    #[error("{operator} {wants}, not {value:?}")]
    Value { operator: &'static str, wants: String, value: String },
}

/// Reads a list of constraints, or a single one.
pub fn parse(text: &str) -> Result<Vec<Constraint>, ConstraintError> {
    let json = |error: serde_json::Error| ConstraintError::Json(error.to_string());
    let lists: Vec<Vec<String>> = match serde_json::from_str::<Vec<String>>(text) {
        Ok(single) if !single.is_empty() => vec![single],
        _ => serde_json::from_str(text).map_err(json)?,
    };
    lists.iter().map(|elements| Constraint::new(elements)).collect()
}

impl Constraint {
    /// Checks and reads one constraint.
    pub fn new(elements: &[String]) -> Result<Self, ConstraintError> {
        let (field, operator, value) = match elements {
            [field, operator] => (field, operator, None),
            [field, operator, value] => (field, operator, Some(value.as_str())),
            _ => return Err(ConstraintError::Length(elements.len())),
        };
        let field = match field.as_str() {
            "" => return Err(ConstraintError::Field),
            "hostname" | "@hostname" => Field::Hostname,
            "@region" => Field::Region,
            "@zone" => Field::Zone,
            attribute => Field::Attribute(attribute.to_owned()),
        };
        Ok(Self { field, operator: Operator::new(operator, value)? })
    }
}

impl Operator {
    fn new(name: &str, value: Option<&str>) -> Result<Self, ConstraintError> {
        let bad = |operator: &'static str, wants: String| {
            let value = value.unwrap_or_default().to_owned();
            ConstraintError::Value { operator, wants, value }
        };
        let number = |operator: &'static str| {
            let number = value.and_then(|value| value.parse::<u32>().ok());
            number.ok_or_else(|| bad(operator, "needs a whole number as value".to_owned()))
        };
        let pattern = |operator: &'static str| {
            Pattern::new(value.unwrap_or_default())
                .map_err(|error| bad(operator, format!("needs a regular expression as value ({error})")))
        };
        Ok(match name {
            "UNIQUE" if value.is_some_and(|value| !value.is_empty()) => {
                return Err(bad("UNIQUE", "takes no value".to_owned()));
            }
            "UNIQUE" => Self::Unique,
            "CLUSTER" => Self::Cluster(value.filter(|value| !value.is_empty()).map(str::to_owned)),
            "GROUP_BY" if value.is_none_or(str::is_empty) => Self::GroupBy(None),
            "GROUP_BY" => Self::GroupBy(Some(number("GROUP_BY")?)),
            "LIKE" => Self::Like(pattern("LIKE")?),
            "UNLIKE" => Self::Unlike(pattern("UNLIKE")?),
            "MAX_PER" => Self::MaxPer(number("MAX_PER")?),
            "IS" => {
                let value = value.unwrap_or_default();
                let plain = |letter: char| letter.is_ascii_alphanumeric() || "_/.-".contains(letter);
                if !value.chars().all(plain) {
                    return Err(bad("IS", "needs a text or number, no set and no range".to_owned()));
                }
                Self::Is(value.to_owned())
            }
            _ => return Err(ConstraintError::Operator(name.to_owned())),
        })
    }

    fn parts(&self) -> (&'static str, Option<String>) {
        match self {
            Self::Unique => ("UNIQUE", None),
            Self::Cluster(value) => ("CLUSTER", value.clone()),
            Self::GroupBy(number) => ("GROUP_BY", number.map(|number| number.to_string())),
            Self::Like(pattern) => ("LIKE", Some(pattern.text.clone())),
            Self::Unlike(pattern) => ("UNLIKE", Some(pattern.text.clone())),
            Self::MaxPer(number) => ("MAX_PER", Some(number.to_string())),
            Self::Is(value) => ("IS", Some(value.clone())),
        }
    }
}

/// As it was written.
impl fmt::Display for Constraint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match &self.field {
            Field::Hostname => "hostname",
            Field::Region => "@region",
            Field::Zone => "@zone",
            Field::Attribute(name) => name,
        };
        let (operator, value) = self.operator.parts();
        match value {
            Some(value) => write!(out, "[{field}, {operator}, {value}]"),
            None => write!(out, "[{field}, {operator}]"),
        }
    }
}
