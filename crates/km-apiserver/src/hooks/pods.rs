//! Pods: what admission adds, and the status that a new pod has.

use km_kube::pod::qos_class;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{failure::Failure, registry::Hooks, server::Server};

pub const HOOKS: Hooks = Hooks { create, update };

/// Pods stay on a node that is not ready or unreachable for so long, unless they say otherwise
/// (the DefaultTolerationSeconds admission plugin).
const TOLERATION_SECONDS: u64 = 300;

fn create(_: &Server, pod: &mut Value) -> Result<(), Failure> {
    let spec = &mut pod["spec"];
    if spec["serviceAccountName"].as_str().is_none_or(str::is_empty) {
        spec["serviceAccountName"] = "default".into();
    }
    spec["serviceAccount"] = spec["serviceAccountName"].clone();
    if spec.get("priority").is_none() {
        spec["priority"] = 0.into();
    }
    if spec.get("preemptionPolicy").is_none() {
        spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    }
    tolerate(spec);
    pod["status"] = json!({ "phase": "Pending", "qosClass": class(pod) });
    Ok(())
}

fn update(_: &Server, old: &Value, new: &mut Value) -> Result<(), Failure> {
    if let Some(class) = old.pointer("/status/qosClass") {
        new["status"]["qosClass"] = class.clone();
    }
    Ok(())
}

fn tolerate(spec: &mut Value) {
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    let Some(tolerations) = spec["tolerations"].as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let effects = [None, Some(""), Some("NoExecute")];
        let present = tolerations.iter().any(|toleration| {
            let own = toleration["key"].as_str().unwrap_or_default();
            (own == key || own.is_empty()) && effects.contains(&toleration["effect"].as_str())
        });
        if !present {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

/// The class of a pod whose spec can be read; validation has its say about all others.
fn class(pod: &Value) -> &'static str {
    match Deserialize::deserialize(&pod["spec"]) {
        Ok(spec) => qos_class(&spec).name(),
        Err(_) => "BestEffort",
    }
}
