//! Kinds without columns of their own.

use serde_json::Value;

use super::{Column, name, text};

pub const COLUMNS: &[Column] = &[text("Name"), text("Created At")];

pub fn cells(object: &Value) -> Vec<Value> {
    vec![name(object), super::at(object, "/metadata/creationTimestamp").into()]
}
