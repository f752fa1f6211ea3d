//! Defaults of pods and pod templates.

use super::container::container;
use super::field::{child, default, default_text, existing, items, missing, set, text};
use super::volume::volume;
use crate::pod::qos_class;
use serde_json::{Value, json};

/// A pod itself gets more than a template: requests from limits, priority, service account, tolerations, status.
pub(super) fn whole_pod(pod: &mut Value) {
    let spec = child(pod, "spec");
    for list in ["initContainers", "containers"] {
        items(spec, list).for_each(requests_from_limits);
    }
    default(spec, "enableServiceLinks", true);
    pod_spec(spec);
    default_text(spec, "serviceAccountName", "default");
    let account = spec["serviceAccountName"].clone();
    default(spec, "serviceAccount", account);
    priority(spec);
    default_tolerations(spec);
    status(pod);
}

/// The `template` of a workload's spec or of a PodTemplate.
pub(super) fn template(parent: &mut Value) {
    if let Some(template) = existing(parent, "template") {
        child(template, "metadata");
        pod_spec(child(template, "spec"));
    }
}

fn pod_spec(spec: &mut Value) {
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    child(spec, "securityContext");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
    // The old name of the field is kept in step with the new one.
    let (old, new) = (text(spec, "serviceAccount").to_owned(), text(spec, "serviceAccountName").to_owned());
    if !new.is_empty() {
        set(spec, "serviceAccount", new);
    } else if !old.is_empty() {
        set(spec, "serviceAccountName", old);
    }
    if spec.get("hostNetwork") == Some(&json!(true)) {
        for list in ["initContainers", "containers"] {
            for port in items(spec, list).flat_map(|container| items(container, "ports")) {
                let container_port = port.get("containerPort").cloned().unwrap_or_default();
                default(port, "hostPort", container_port);
            }
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(resources) = existing(container, "resources") else { return };
    let Some(limits) = existing(resources, "limits").map(|limits| limits.clone()) else { return };
    let requests = child(resources, "requests");
    for (name, limit) in limits.as_object().into_iter().flatten() {
        default(requests, name, limit.clone());
    }
}

/// The two classes that every cluster has are known here; others are looked up by the API server.
fn priority(spec: &mut Value) {
    match text(spec, "priorityClassName") {
        "" => default(spec, "priority", 0),
        "system-cluster-critical" => default(spec, "priority", 2_000_000_000),
        "system-node-critical" => default(spec, "priority", 2_000_001_000),
        _ => return,
    }
    default_text(spec, "preemptionPolicy", "PreemptLowerPriority");
}

/// A pod stays five minutes on a node that is not ready or unreachable, unless it says otherwise.
fn default_tolerations(spec: &mut Value) {
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if items(spec, "tolerations").any(|toleration| tolerates(toleration)) {
            continue;
        }
        default(spec, "tolerations", json!([]));
        if let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
            list.push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

fn status(pod: &mut Value) {
    // A spec that is no pod spec is refused by the schema; it gets no class here.
    let class = serde_json::from_value(pod["spec"].clone()).ok().map(|spec| qos_class(&spec));
    let status = child(pod, "status");
    default_text(status, "phase", "Pending");
    if let Some(class) = class
        && missing(status, "qosClass")
    {
        set(status, "qosClass", class.name());
    }
}
