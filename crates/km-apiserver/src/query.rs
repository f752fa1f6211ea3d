//! The query string of a request.

use crate::{failure::Failure, path::percent};

/// Parameters by name, in the order of the query string.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

/// What to do with unknown and duplicate fields of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Strict,
    Warn,
    Ignore,
}

impl Query {
    /// Splits and decodes.
    pub fn parse(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |part: &str| percent::decode(&part.replace('+', " "));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter; empty ones count as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Whether a boolean parameter is set: `true`, `1`, or there without a value.
    pub fn flag(&self, name: &str) -> bool {
        self.0.iter().any(|(key, value)| key == name && matches!(value.as_str(), "true" | "1" | "True" | ""))
    }

    /// A number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Failure::bad_request(format!("invalid {name} {text:?}: must be a number")))
    }

    /// Whether nothing may be persisted.
    pub fn dry_run(&self) -> Result<bool, Failure> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Failure::invalid_options(format!(
                " \"\" is invalid: dryRun: Unsupported value: {other:?}: supported values: \"All\""
            ))),
        }
    }

    /// `fieldValidation`, by default `Warn`.
    pub fn field_validation(&self) -> Result<FieldValidation, Failure> {
        match self.get("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => Err(Failure::invalid_options(format!(
                " \"\" is invalid: fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \
                 \"Strict\", \"Warn\""
            ))),
        }
    }

    /// A resource version: 0 means any.
    pub fn resource_version(&self) -> Result<Option<u64>, Failure> {
        let Some(text) = self.get("resourceVersion") else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| Failure::bad_request(format!("Invalid value: {text:?}: invalid resourceVersion")))
    }
}
