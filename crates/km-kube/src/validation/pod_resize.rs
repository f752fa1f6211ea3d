//! What the subresource `resize` of a pod may change: CPU and memory of containers and sidecars (Kubernetes docs,
//! "Resize CPU and Memory Resources assigned to Containers").

use super::at::{At, Errors};
use crate::pod::{QosClass, is_sidecar, qos_class};
use serde_json::Value;

/// `old` with the resources of `new`: everything else that a resize brings is left out.
pub(super) fn only_resources(old: &Value, new: &Value) -> Value {
    let mut result = old.clone();
    for list in ["containers", "initContainers"] {
        let wanted = new["spec"][list].as_array();
        let containers = result["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let twin = wanted.into_iter().flatten().find(|twin| twin["name"] == container["name"]);
            let (Some(twin), Some(fields)) = (twin, container.as_object_mut()) else { continue };
            match twin.get("resources") {
                Some(resources) => fields.insert("resources".to_owned(), resources.clone()),
                None => fields.remove("resources"),
            };
        }
    }
    result
}

pub(super) fn pod(new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (new.field("spec"), old.field("spec"));
    let phase = old.down("status.phase");
    if matches!(phase.text(), "Succeeded" | "Failed") {
        errors.push(new.forbidden(&format!("pods in phase {} cannot be resized", phase.text())));
    }
    for list in ["containers", "initContainers"] {
        for (container, old) in spec.field(list).items().iter().zip(before.field(list).items()) {
            let (now, was) = (container.field("resources"), old.field("resources"));
            if now.value == was.value {
                continue;
            }
            let sidecar = serde_json::from_value(old.value.clone()).is_ok_and(|container| is_sidecar(&container));
            if list == "initContainers" && !sidecar {
                errors.push(now.forbidden("resources of init containers that are no sidecars cannot be resized"));
            }
            for side in ["requests", "limits"] {
                amounts(&now.field(side), &was.field(side), side, errors);
            }
            if now.field("claims").value != was.field("claims").value {
                errors.push(now.field("claims").forbidden("only cpu and memory resources are mutable"));
            }
        }
    }
    let class = |pod: &At<'_>| {
        serde_json::from_value(pod.field("spec").value.clone()).map_or(QosClass::BestEffort, |spec| qos_class(&spec))
    };
    if class(new) != class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        let shown = Value::from(class(new).name());
        errors.push(At { path: "spec".to_owned(), value: &shown }.invalid(detail));
    }
}

fn amounts(now: &At<'_>, was: &At<'_>, side: &str, errors: &mut Errors) {
    for (name, amount) in was.entries() {
        if now.value.get(name).is_none() {
            let path = At { path: format!("{}[{name}]", now.path), value: amount.value };
            errors.push(path.forbidden(&format!("resource {side} cannot be removed")));
        }
    }
    for (name, amount) in now.entries() {
        if !matches!(name, "cpu" | "memory") && was.value.get(name) != Some(amount.value) {
            errors.push(amount.forbidden("only cpu and memory resources are mutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{resize, resized};
    use super::*;

    #[test]
    fn a_resize_keeps_class_and_names_and_touches_cpu_and_memory_alone() {
        let pod = |list: &str, more: &str, resources: &Value| {
            let plain = json!({"name": "main", "image": "a", "resources": {"requests": {"cpu": "1m"}}});
            let mut container = json!({"name": "c", "image": "a", "resources": resources});
            if !more.is_empty() {
                container["restartPolicy"] = more.into();
            }
            let mut spec = json!({"containers": [plain], "restartPolicy": "Always"});
            match list {
                "containers" => spec["containers"][0] = container,
                _ => spec[list] = json!([container]),
            }
            json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}})
        };
        let some = json!({"requests": {"cpu": "1"}});
        let guaranteed = json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "1", "memory": "1Mi"}});
        for (list, policy, before, after, error) in [
            ("containers", "", &some, json!({"requests": {"cpu": "2", "memory": "1Mi"}, "limits": {"cpu": "3"}}), ""),
            ("initContainers", "Always", &some, json!({"requests": {"cpu": "2"}}), ""),
            ("initContainers", "", &some, json!({"requests": {"cpu": "2"}}), "resources of init containers"),
            ("containers", "", &some, json!({"requests": {"memory": "1Mi"}}), "resource requests cannot be removed"),
            ("containers", "", &some, json!({}), "resource requests cannot be removed"),
            (
                "containers",
                "",
                &guaranteed,
                json!({"requests": {"cpu": "1", "memory": "1Mi"},
                "limits": {"cpu": "2", "memory": "1Mi"}}),
                "Pod QOS Class may not change",
            ),
            (
                "containers",
                "",
                &some,
                json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}),
                "only cpu and memory",
            ),
            ("containers", "", &some, json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}), "must be less than"),
        ] {
            let (old, new) = (pod(list, policy, before), pod(list, policy, &after));
            let errors: Vec<String> = resize(&new, &old).iter().map(ToString::to_string).collect();
            match error {
                "" => assert!(errors.is_empty(), "{after}: {errors:?}"),
                _ => assert!(errors.iter().any(|found| found.contains(error)), "{after}: {errors:?}"),
            }
        }
        let mut ended = pod("containers", "", &some);
        ended["status"]["phase"] = "Failed".into();
        assert!(resize(&ended, &ended)[0].to_string().contains("phase Failed cannot be resized"));
    }

    #[test]
    fn whatever_else_a_resize_brings_is_left_out() {
        let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n", "containers":
            [{"name": "a", "image": "x"}, {"name": "b", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}});
        let new = json!({"spec": {"containers": [{"name": "b", "image": "y", "resources": {"limits": {"cpu": "2"}}},
            {"name": "new"}], "nodeName": "other"}, "status": {"phase": "Failed"}});
        let mut wanted = old.clone();
        wanted["spec"]["containers"][1]["resources"]["limits"]["cpu"] = "2".into();
        assert_eq!(resized(&old, &new), wanted);
    }
}
