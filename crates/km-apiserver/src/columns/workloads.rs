//! Replication controllers, replica sets, deployments, disruption budgets.

use serde_json::Value;

use super::{Column, age, containers, count, labels, name, number, selector, text, wide};

pub const REPLICAS: &[Column] = &[
    text("Name"),
    number("Desired"),
    number("Current"),
    number("Ready"),
    text("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub fn replicas(object: &Value) -> Vec<Value> {
    let (names, images) = containers(object, "/spec/template/spec/containers");
    let is_structured = object.pointer("/spec/selector/matchLabels").is_some_and(Value::is_object)
        || object.pointer("/spec/selector/matchExpressions").is_some_and(Value::is_array);
    let chosen = object.pointer("/spec/selector");
    vec![
        name(object),
        count(object, "/spec/replicas").into(),
        count(object, "/status/replicas").into(),
        count(object, "/status/readyReplicas").into(),
        age(object),
        names.into(),
        images.into(),
        if is_structured { selector(chosen) } else { labels(chosen) }.into(),
    ]
}

pub const DEPLOYMENTS: &[Column] = &[
    text("Name"),
    text("Ready"),
    number("Up-to-date"),
    number("Available"),
    text("Age"),
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub fn deployment(object: &Value) -> Vec<Value> {
    let (names, images) = containers(object, "/spec/template/spec/containers");
    vec![
        name(object),
        format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas")).into(),
        count(object, "/status/updatedReplicas").into(),
        count(object, "/status/availableReplicas").into(),
        age(object),
        names.into(),
        images.into(),
        selector(object.pointer("/spec/selector")).into(),
    ]
}

pub const BUDGETS: &[Column] =
    &[text("Name"), text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), text("Age")];

pub fn budget(object: &Value) -> Vec<Value> {
    let amount = |pointer| match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => Value::from("N/A"),
    };
    vec![
        name(object),
        amount("/spec/minAvailable"),
        amount("/spec/maxUnavailable"),
        count(object, "/status/disruptionsAllowed").into(),
        age(object),
    ]
}
