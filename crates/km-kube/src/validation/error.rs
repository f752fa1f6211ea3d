//! What is wrong with a field, told as Kubernetes tells it.

use serde_json::Value;
use std::fmt;

/// The kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Invalid,
    Required,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    NotFound,
}

impl Reason {
    /// Spelling in `Status.details.causes[].reason`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// One mistake. `message` has no field in it; `Display` puts the field before it, as in a Status message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path such as `spec.containers[0].image`.
    pub field: String,
    pub reason: Reason,
    /// Such as `Required value` or `Invalid value: "x": must be ...`.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

impl FieldError {
    fn new(field: impl Into<String>, reason: Reason, message: String) -> Self {
        Self { field: field.into(), reason, message }
    }

    pub(super) fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, Reason::Required, with_detail("Required value".to_owned(), detail))
    }

    pub(super) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(field, Reason::Invalid, with_detail(format!("Invalid value: {}", shown(value)), detail))
    }

    pub(super) fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(field, Reason::NotSupported, with_detail(format!("Unsupported value: {}", shown(value)), &detail))
    }

    pub(super) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, Reason::Duplicate, format!("Duplicate value: {}", shown(value)))
    }

    pub(super) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(field, Reason::Forbidden, with_detail("Forbidden".to_owned(), detail))
    }

    pub(super) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, Reason::NotFound, format!("Not found: {}", shown(value)))
    }

    pub(super) fn too_long(field: impl Into<String>, most: usize) -> Self {
        Self::new(field, Reason::TooLong, format!("Too long: may not be more than {most} bytes"))
    }
}

fn with_detail(message: String, detail: &str) -> String {
    if detail.is_empty() { message } else { format!("{message}: {detail}") }
}

fn shown(value: &Value) -> String {
    value.to_string()
}
