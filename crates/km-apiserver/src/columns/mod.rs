//! The columns of `kubectl get`, per kind, as the stock server prints them.

pub mod cluster;
pub mod events;
pub mod network;
pub mod nodes;
pub mod plain;
pub mod pods;
pub mod storage;
pub mod workloads;

use serde_json::{Value, json};

use crate::time;

/// One column.
pub struct Column {
    pub name: &'static str,
    /// `string` or `integer`.
    pub kind: &'static str,
    /// 1 for columns that only the wide output shows.
    pub priority: u8,
}

impl Column {
    /// `columnDefinitions` entry.
    pub fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        json!({
            "name": self.name, "type": self.kind, "format": format, "description": "", "priority": self.priority,
        })
    }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", priority: 0 }
}

const fn number(name: &'static str) -> Column {
    Column { name, kind: "integer", priority: 0 }
}

const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", priority: 1 }
}

fn at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn size(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    }
}

fn name(object: &Value) -> Value {
    at(object, "/metadata/name").into()
}

fn age(object: &Value) -> Value {
    time::age(object.pointer("/metadata/creationTimestamp").and_then(Value::as_str)).into()
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// `a=1,b=2`, or `<none>`.
fn labels(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

/// A label selector with `matchLabels` and `matchExpressions`, as text.
fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    match km_kube::selector::LabelSelector::from_object(selector) {
        Ok(parsed) if !parsed.is_everything() => parsed.to_string(),
        _ => "<none>".to_owned(),
    }
}

/// Names and images of a pod template's containers.
fn containers(object: &Value, pointer: &str) -> (String, String) {
    let containers = list(object, pointer);
    let join = |field| containers.iter().map(|container| at(container, field)).collect::<Vec<_>>().join(",");
    (join("/name"), join("/image"))
}
