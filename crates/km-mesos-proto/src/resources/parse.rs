//! The agent's flag `--resources`: `cpus:4;mem(role):8192;ports:[31000-32000]`, or a JSON list of resources.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{ParsedValue, Resource, ResourceError, Resources, Scalar, Value, roles};
use crate::{json, v1};

impl Resources {
    /// Reads either form. What names no role is reserved for `default_role`, `*` for none.
    ///
    /// # Errors
    /// Says which item is malformed. An agent's own resources have neither volumes nor dynamic reservations, none is
    /// revocable, and one name has one type.
    pub fn parse(text: &str, default_role: &str) -> Result<Self, ResourceError> {
        roles::validate(default_role).map_err(ResourceError::new)?;
        let resources = match text.trim_start().starts_with('[') {
            true => parse_json(text, default_role)?,
            false => parse_items(text, default_role)?,
        };
        check_types(&resources)?;
        Ok(resources.into_iter().collect())
    }
}

fn parse_items(text: &str, default_role: &str) -> Result<Vec<Resource>, ResourceError> {
    let items = text.split(';').filter(|item| !item.trim().is_empty());
    items.map(|item| parse_item(item, default_role)).collect()
}

fn parse_item(item: &str, default_role: &str) -> Result<Resource, ResourceError> {
    let bad = |reason: &str| ResourceError::new(format!("Bad value for resources: '{}' {reason}", item.trim()));
    let Some((key, value)) = item.split_once(':').filter(|(_, value)| !value.contains(':')) else {
        return Err(bad("must have the form 'name:value' or 'name(role):value' with exactly one ':'"));
    };
    let (name, role) = parse_key(key.trim(), default_role).ok_or_else(|| bad("has unmatched parentheses"))?;
    if name.is_empty() {
        return Err(bad("has no name"));
    }
    roles::validate(role).map_err(|reason| bad(&reason))?;
    let value = parse_value(value).map_err(|error| bad(&format!("has a bad value: {error}")))?;
    Ok(Resource::new(name, value).with_static_reservation(role))
}

/// `name` or `name(role)`.
fn parse_key<'a>(key: &'a str, default_role: &'a str) -> Option<(&'a str, &'a str)> {
    match key.split_once('(') {
        None => (!key.contains(')')).then_some((key, default_role)),
        Some((name, rest)) => {
            let role = rest.strip_suffix(')').filter(|role| !role.contains(['(', ')']))?;
            Some((name.trim(), role.trim()))
        }
    }
}

fn parse_value(text: &str) -> Result<Value, ResourceError> {
    match ParsedValue::parse(text)? {
        ParsedValue::Scalar(number) => {
            let amount = Scalar::from_f64(number);
            let positive = amount > Scalar::ZERO;
            positive
                .then_some(Value::Scalar(amount))
                .ok_or_else(|| ResourceError::new("Invalid scalar resource: value <= 0"))
        }
        ParsedValue::Ranges(ranges) => Ok(Value::Ranges(ranges)),
        ParsedValue::Set(items) => {
            let count = items.len();
            let set: std::collections::BTreeSet<_> = items.into_iter().collect();
            let unique = set.len() == count;
            unique
                .then_some(Value::Set(set))
                .ok_or_else(|| ResourceError::new("Invalid set resource: duplicated elements"))
        }
        ParsedValue::Text(text) => Err(ResourceError::new(format!("'{text}' is neither a number, ranges nor a set"))),
    }
}

fn parse_json(text: &str, default_role: &str) -> Result<Vec<Resource>, ResourceError> {
    let bad = |error: String| ResourceError::new(format!("Bad JSON for resources: {error}"));
    let items: Vec<Json> = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    let read = |item| parse_json_item(item, default_role).map_err(bad);
    items.iter().map(read).collect()
}

fn parse_json_item(item: &Json, default_role: &str) -> Result<Resource, String> {
    let mut message: v1::Resource = json::from_value(item).map_err(|error| error.to_string())?;
    if message.role.is_none() && message.reservations.is_empty() {
        message.role = Some(default_role.to_owned());
    }
    let resource = Resource::from_proto(&message).map_err(|error| error.to_string())?;
    let forbidden = [
        (resource.is_persistent_volume(), "Persistent volumes can't be given"),
        (resource.is_dynamically_reserved(), "Dynamic reservations can't be given"),
        (resource.revocable, "Revocable resources can't be given"),
    ];
    match forbidden.into_iter().find(|(found, _)| *found) {
        Some((_, reason)) => Err(format!("{reason} on the command line: {resource}")),
        None => Ok(resource),
    }
}

/// One name has one type.
fn check_types(resources: &[Resource]) -> Result<(), ResourceError> {
    let mut types = BTreeMap::new();
    for resource in resources {
        let first = types.entry(&resource.name).or_insert(&resource.value);
        if !first.same_type(&resource.value) {
            return Err(ResourceError::new(format!("Resources with name '{}' differ in type", resource.name)));
        }
    }
    Ok(())
}
