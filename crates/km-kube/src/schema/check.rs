//! Unknown fields and wrong types of an object.

use super::{Shape, TypeRef};
use crate::quantity::Quantity;
use base64::Engine;
use serde_json::Value;

/// What does not fit the type, in the order of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// `unknown field "spec.containers[0].foo"`
    pub unknown: Vec<String>,
    /// `spec.replicas: expected integer, got string "x"`
    pub wrong: Vec<String>,
}

impl Problems {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unknown.is_empty() && self.wrong.is_empty()
    }
}

/// Compares an object with its type. `null` stands for "not given" and is always right.
#[must_use]
pub fn check(of: TypeRef, object: &Value) -> Problems {
    let mut problems = Problems::default();
    walk(of, object, "", &mut problems);
    problems
}

fn walk(of: TypeRef, value: &Value, path: &str, problems: &mut Problems) {
    if value.is_null() {
        return;
    }
    match (of.shape(), value) {
        (Shape::Object, Value::Object(fields)) => {
            for (name, child) in fields {
                let path = join(path, name);
                match of.field(name) {
                    Some(field) => walk(field, child, &path, problems),
                    None => problems.unknown.push(format!("unknown field \"{path}\"")),
                }
            }
        }
        (Shape::Map, Value::Object(fields)) => {
            for (name, child) in fields {
                if let Some(field) = of.field(name) {
                    walk(field, child, &join(path, name), problems);
                }
            }
        }
        (Shape::List, Value::Array(items)) => {
            for (index, child) in items.iter().enumerate() {
                if let Some(item) = of.items() {
                    walk(item, child, &format!("{path}[{index}]"), problems);
                }
            }
        }
        (shape, value) => {
            if let Err(want) = scalar(shape, value) {
                problems.wrong.push(format!("{path}: expected {want}, got {}", describe(value)));
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether a value fits a shape that has no children; else what was wanted.
fn scalar(shape: Shape, value: &Value) -> Result<(), &'static str> {
    let (fits, want) = match shape {
        Shape::Object | Shape::Map => (false, "object"),
        Shape::List => (false, "array"),
        Shape::String => (value.is_string(), "string"),
        Shape::Time => (value.as_str().is_some_and(is_time), "RFC 3339 time"),
        Shape::Bytes => (value.as_str().is_some_and(is_base64), "base64 text"),
        Shape::Int32 => (whole(value).is_some_and(|number| i32::try_from(number).is_ok()), "integer (32 bit)"),
        Shape::Int64 => (whole(value).is_some(), "integer"),
        Shape::Number => (value.is_number(), "number"),
        Shape::Boolean => (value.is_boolean(), "boolean"),
        Shape::IntOrString => {
            let number = whole(value).is_some_and(|number| i32::try_from(number).is_ok());
            (number || value.is_string(), "integer or string")
        }
        Shape::Quantity => (is_quantity(value), "quantity"),
        Shape::Any => (true, "anything"),
    };
    let want = if want == "integer (32 bit)" && !value.is_number() { "integer" } else { want };
    if fits { Ok(()) } else { Err(want) }
}

/// Whole numbers may be written `3` or `3.0`.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0)?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        Some(float as i64)
    })
}

fn is_quantity(value: &Value) -> bool {
    match value {
        Value::String(text) => Quantity::parse(text).is_ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).is_ok(),
        _ => false,
    }
}

fn is_time(text: &str) -> bool {
    text.is_empty() || text.parse::<jiff::Timestamp>().is_ok()
}

/// Standard alphabet with padding. Line breaks are allowed, as the decoder of Kubernetes allows them.
fn is_base64(text: &str) -> bool {
    let bytes: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    base64::engine::general_purpose::STANDARD.decode(bytes).is_ok()
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("boolean {flag}"),
        Value::Number(number) => format!("number {number}"),
        Value::String(text) if text.chars().count() > 64 => {
            format!("string \"{}…\"", text.chars().take(64).collect::<String>())
        }
        Value::String(text) => format!("string {text:?}"),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}
