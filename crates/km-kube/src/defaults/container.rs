//! Defaults of containers, probes and handlers.

use super::field::{child, default, default_text, existing, items, set, text};
use serde_json::Value;

pub(super) fn container(container: &mut Value) {
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    default_text(container, "imagePullPolicy", pull_policy(text(container, "image")));
    child(container, "resources");
    for port in items(container, "ports") {
        default_text(port, "protocol", "TCP");
    }
    for env in items(container, "env") {
        if let Some(field_ref) = existing(env, "valueFrom").and_then(|from| existing(from, "fieldRef")) {
            default_text(field_ref, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = existing(container, name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = existing(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(found) = existing(lifecycle, name) {
                http_get(found);
            }
        }
    }
}

fn probe(probe: &mut Value) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.get(name).and_then(Value::as_i64) == Some(0) {
            set(probe, name, Value::Null);
        }
        default(probe, name, value);
    }
    http_get(probe);
    if let Some(grpc) = existing(probe, "grpc") {
        default(grpc, "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(http) = existing(handler, "httpGet") {
        default_text(http, "path", "/");
        default_text(http, "scheme", "HTTP");
    }
}

/// `Always` for the tag `latest`, given or implied; a digest pins the image.
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}
