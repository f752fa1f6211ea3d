//! Validation of the served kinds: on create, and what an update may not change.

mod error;

pub use error::{FieldError, Reason};

use serde_json::Value;

/// What is wrong with a new object; empty when it may be stored.
#[must_use]
pub fn create(_group: &str, _kind: &str, _object: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// What is wrong with a change.
#[must_use]
pub fn update(_group: &str, _kind: &str, _new: &Value, _old: &Value) -> Vec<FieldError> {
    Vec::new()
}
