//! Reading objects that are kept as JSON.

use super::{Key, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A text at a JSON pointer; empty when missing.
pub(crate) fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// A number at a JSON pointer.
pub(crate) fn integer(object: &Value, at: &str) -> Option<i64> {
    object.pointer(at).and_then(Value::as_i64)
}

/// A time at a JSON pointer.
pub(crate) fn timestamp(object: &Value, at: &str) -> Option<Timestamp> {
    text(object, at).parse().ok()
}

/// A map of texts at a JSON pointer.
pub(crate) fn labels_at(object: &Value, at: &str) -> BTreeMap<String, String> {
    let entries = object.pointer(at).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// `metadata.ownerReferences`.
pub(crate) fn owners(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The reference of the controller that manages an object, among its owner references.
pub(crate) fn controller_of(owners: &[Value]) -> Option<&Value> {
    owners.iter().find(|owner| owner["controller"] == json!(true))
}

/// The reference by which a controller owns what it made.
pub(crate) fn controller_reference(resource: &Resource, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": resource.api_version(), "kind": resource.kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

pub(super) fn key_of(object: &Value) -> Key {
    Key::new(text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// Whether two objects say the same apart from metadata.
pub(crate) fn same_but_metadata(one: &Value, other: &Value) -> bool {
    let body = |object: &Value| {
        let fields = object.as_object().cloned().unwrap_or_default();
        let kept = fields.into_iter().filter(|(name, value)| {
            !matches!(name.as_str(), "metadata" | "apiVersion" | "kind") && !value.is_null() && value != &json!([])
        });
        kept.collect::<BTreeMap<_, _>>()
    };
    body(one) == body(other)
}
