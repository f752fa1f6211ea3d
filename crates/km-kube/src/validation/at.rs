//! A value together with the path it stands at, and questions that end in errors with that path.

use super::error::FieldError;
use serde_json::Value;
use std::collections::BTreeMap;

static NULL: Value = Value::Null;

/// A place in an object. Missing fields are places too, with the value `null`.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub path: String,
    pub value: &'a Value,
}

/// Where errors are gathered.
pub(super) type Errors = Vec<FieldError>;

impl<'a> At<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { [&self.path, ".", name].concat() };
        Self { path, value: self.value.get(name).unwrap_or(&NULL) }
    }

    /// Several steps, separated by dots.
    pub(super) fn down(&self, names: &str) -> Self {
        names.split('.').fold(self.clone(), |at, name| at.field(name))
    }

    pub(super) fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| Self { path: format!("{}[{index}]", self.path), value }).collect()
    }

    /// The entries of a map, each at `path[key]`.
    pub(super) fn entries(&self) -> Vec<(&'a str, Self)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), Self { path: [&self.path, "[", key, "]"].concat(), value })).collect()
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn integer(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// `null`, empty text, empty list or empty object.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        }
    }

    /// A map of texts.
    pub(super) fn texts(&self) -> BTreeMap<String, String> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }

    pub(super) fn invalid(&self, detail: &str) -> FieldError {
        FieldError::invalid(self.path.clone(), self.value, detail)
    }

    pub(super) fn forbidden(&self, detail: &str) -> FieldError {
        FieldError::forbidden(self.path.clone(), detail)
    }

    pub(super) fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.clone(), detail)
    }

    pub(super) fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.clone(), self.value)
    }

    /// Must not be empty.
    pub(super) fn need(&self, errors: &mut Errors) -> bool {
        if self.is_empty() {
            errors.push(self.required(""));
        }
        !self.is_empty()
    }

    /// Must be set and satisfy a rule for texts.
    pub(super) fn need_text(&self, rule: fn(&str) -> Result<(), String>, errors: &mut Errors) {
        if self.need(errors) {
            self.follows(rule, errors);
        }
    }

    /// Must satisfy a rule when it is a text that is not empty.
    pub(super) fn follows(&self, rule: fn(&str) -> Result<(), String>, errors: &mut Errors) {
        if self.is_empty() {
            return;
        }
        if let Err(message) = rule(self.text()) {
            errors.push(self.invalid(&message));
        }
    }

    /// When set, must be one of a few texts.
    pub(super) fn one_of(&self, supported: &[&str], errors: &mut Errors) {
        if !self.is_empty() && !supported.contains(&self.text()) {
            errors.push(FieldError::not_supported(self.path.clone(), self.value, supported));
        }
    }

    /// When set, must be at least `least`.
    pub(super) fn at_least(&self, least: i64, errors: &mut Errors) {
        if self.integer().is_some_and(|number| number < least) {
            errors.push(self.invalid(&if least == 0 {
                "must be greater than or equal to 0".to_owned()
            } else {
                format!("must be greater than or equal to {least}")
            }));
        }
    }

    /// When set, must be a port number.
    pub(super) fn port(&self, errors: &mut Errors) {
        if self.integer().is_some_and(|port| !(1..=65535).contains(&port)) {
            errors.push(self.invalid("must be between 1 and 65535, inclusive"));
        }
    }

    /// When set, must be a port number or a port name.
    pub(super) fn port_or_name(&self, errors: &mut Errors) {
        if self.value.is_string() {
            if let Err(message) = crate::names::port_name(self.text()) {
                errors.push(self.invalid(&message));
            }
        } else {
            self.port(errors);
        }
    }

    /// No two items of the list have the same value at `name`.
    pub(super) fn unique(&self, name: &str, errors: &mut Errors) {
        let mut seen: Vec<&Value> = Vec::new();
        for field in self.items().iter().map(|item| item.field(name)).filter(|field| !field.is_empty()) {
            if seen.contains(&field.value) {
                errors.push(field.duplicate());
            }
            seen.push(field.value);
        }
    }

    /// Compared with its old self it must not change.
    pub(super) fn immutable(&self, old: &At<'_>, errors: &mut Errors) {
        if self.value != old.value {
            errors.push(self.invalid("field is immutable"));
        }
    }
}
