//! Why a pod does not run, in one line.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// What the pod's status gives as the reason; none while it just takes its time.
pub fn pod_waits(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unplaced = status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(message) = unplaced.and_then(|condition| condition.message.clone()) {
        return Some(message);
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let of_container = containers.filter_map(container_waits).next();
    of_container.or_else(|| status.message.clone())
}

fn container_waits(status: &ContainerStatus) -> Option<String> {
    /// What every container goes through.
    const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    let state = status.state.as_ref()?;
    let ended = state.terminated.as_ref();
    let before = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let waits = state.waiting.as_ref().filter(|waits| !USUAL.contains(&waits.reason.as_deref().unwrap_or_default()));
    let mut words = Vec::new();
    if let Some(waits) = waits {
        words.extend(waits.reason.clone());
        words.extend(waits.message.clone());
    }
    if let Some(end) = ended.or(waits.and(before)).filter(|end| end.exit_code != 0) {
        words.push(format!("it ended with exit code {}", end.exit_code));
        words.extend(end.message.as_deref().map(|message| message.trim_end().to_owned()));
    }
    (!words.is_empty()).then(|| format!("container {}: {}", status.name, words.join(": ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn the_first_cause_is_told() {
        let container = |state: Value, last: Value| {
            json!({"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": state, "lastState": last}]})
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "m"}});
        let ended = |code: i32| json!({"terminated": {"exitCode": code, "message": "last words\n"}});
        let table = [
            (json!({}), None),
            (container(json!({"running": {}}), ended(1)), None),
            (container(waiting("ContainerCreating"), json!({})), None),
            (container(ended(0), json!({})), None),
            (container(waiting("ErrImagePull"), json!({})), Some("container c: ErrImagePull: m")),
            (
                container(waiting("CrashLoopBackOff"), ended(3)),
                Some("container c: CrashLoopBackOff: m: it ended with exit code 3: last words"),
            ),
            (container(ended(4), json!({})), Some("container c: it ended with exit code 4: last words")),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}),
                Some("no room"),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "the node was low on x"}),
                Some("the node was low on x"),
            ),
        ];
        for (status, expected) in table {
            let pod: Pod = from_value(json!({"metadata": {}, "status": status})).unwrap();
            assert_eq!(pod_waits(&pod).as_deref(), expected, "{status}");
        }
    }
}
