//! Nodes.

use serde_json::Value;

use super::{Column, age, at, list, name, or_none, text, wide};

pub const COLUMNS: &[Column] = &[
    text("Name"),
    text("Status"),
    text("Roles"),
    text("Age"),
    text("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

const ROLE: &str = "node-role.kubernetes.io/";

pub fn cells(node: &Value) -> Vec<Value> {
    let address = |kind| {
        let found = list(node, "/status/addresses").iter().find(|address| at(address, "/type") == kind);
        or_none(found.map(|address| at(address, "/address")).unwrap_or_default())
    };
    let info = |field| {
        let text = at(node, &format!("/status/nodeInfo/{field}"));
        Value::from(if text.is_empty() { "<unknown>" } else { text })
    };
    vec![
        name(node),
        status(node).into(),
        roles(node).into(),
        age(node),
        at(node, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn status(node: &Value) -> String {
    let ready = list(node, "/status/conditions").iter().find(|condition| at(condition, "/type") == "Ready");
    let mut status = match ready.map(|condition| at(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some(role) if !role.is_empty() => Some(role),
            _ if key == "kubernetes.io/role" => value.as_str(),
            _ => None,
        })
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}
