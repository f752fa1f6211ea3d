//! Dropping what the type does not know, as decoding into a Go type and encoding again would.

use super::{Shape, TypeRef};
use serde_json::Value;

/// Removes unknown fields and fields that are `null`. A `null` in a map of texts becomes the empty text.
pub fn prune(of: TypeRef, object: &mut Value) {
    match (of.shape(), object) {
        (Shape::Object, Value::Object(fields)) => {
            fields.retain(|name, value| !value.is_null() && of.field(name).is_some());
            for (name, value) in fields {
                if let Some(field) = of.field(name) {
                    prune(field, value);
                }
            }
        }
        (Shape::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let Some(field) = of.field(name) else { continue };
                if value.is_null() && matches!(field.shape(), Shape::String | Shape::Bytes) {
                    *value = Value::String(String::new());
                }
                prune(field, value);
            }
        }
        (Shape::List, Value::Array(items)) => {
            if let Some(item) = of.items() {
                items.iter_mut().for_each(|value| prune(item, value));
            }
        }
        _ => {}
    }
}
