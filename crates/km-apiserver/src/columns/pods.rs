//! Pods: one word for their state, out of phase, conditions and container states.

use serde_json::Value;

use super::{Column, age, at, count, list, name, or_none, text, wide};
use crate::time;

pub const COLUMNS: &[Column] = &[
    text("Name"),
    text("Ready"),
    text("Status"),
    text("Restarts"),
    text("Age"),
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

pub fn cells(pod: &Value) -> Vec<Value> {
    let summary = Summary::of(pod);
    let sidecars = list(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let total = list(pod, "/spec/containers").len() + sidecars;
    let ip = list(pod, "/status/podIPs").first().map(|ip| at(ip, "/ip")).unwrap_or_else(|| at(pod, "/status/podIP"));
    vec![
        name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.word.into(),
        restarts(summary.restarts, summary.last_restart).into(),
        age(pod),
        or_none(ip),
        or_none(at(pod, "/spec/nodeName")),
        or_none(at(pod, "/status/nominatedNodeName")),
        gates(pod).into(),
    ]
}

struct Summary<'a> {
    word: String,
    ready: usize,
    restarts: i64,
    /// When a container that was restarted had ended.
    last_restart: Option<&'a str>,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let reason = at(pod, "/status/reason");
        let word = if reason.is_empty() { at(pod, "/status/phase") } else { reason }.to_owned();
        let mut summary = Summary { word, ready: 0, restarts: 0, last_restart: None };
        if !summary.look_at_init(pod) || condition(pod, "Initialized") == Some("True") {
            summary.look_at_containers(pod);
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string) {
            let over = matches!(at(pod, "/status/phase"), "Succeeded" | "Failed");
            if reason == "NodeLost" {
                summary.word = "Unknown".to_owned();
            } else if !over {
                summary.word = "Terminating".to_owned();
            }
        }
        summary
    }

    fn count_restarts(&mut self, status: &'a Value) {
        self.restarts += count(status, "/restartCount");
        let ended = at(status, "/lastState/terminated/finishedAt");
        if !ended.is_empty() && self.last_restart.is_none_or(|known| known < ended) {
            self.last_restart = Some(ended);
        }
    }

    /// True while an init container holds the pod up; the word then says which.
    fn look_at_init(&mut self, pod: &'a Value) -> bool {
        let specs = list(pod, "/spec/initContainers");
        for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            let spec = specs.iter().find(|spec| at(spec, "/name") == at(status, "/name"));
            let sidecar = spec.is_some_and(is_sidecar);
            self.count_restarts(status);
            if let Some(end) = status.pointer("/state/terminated") {
                if count(end, "/exitCode") == 0 && !sidecar {
                    continue;
                }
                self.word = format!("Init:{}", end_word(end));
                return true;
            }
            if sidecar && status["started"] == true {
                if status["ready"] == true {
                    self.ready += 1;
                }
                continue;
            }
            let waiting = at(status, "/state/waiting/reason");
            self.word = if waiting.is_empty() || waiting == "PodInitializing" {
                format!("Init:{index}/{}", specs.len())
            } else {
                format!("Init:{waiting}")
            };
            return true;
        }
        false
    }

    fn look_at_containers(&mut self, pod: &'a Value) {
        let mut running = false;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let waiting = at(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.word = waiting.to_owned();
            } else if let Some(end) = status.pointer("/state/terminated").filter(|end| end.is_object()) {
                self.word = end_word(end);
            } else if status["ready"] == true && status.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" && running {
            let ready = condition(pod, "Ready") == Some("True");
            self.word = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

fn end_word(end: &Value) -> String {
    let reason = at(end, "/reason");
    match (reason, count(end, "/signal")) {
        ("", 0) => format!("ExitCode:{}", count(end, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(number: i64, last: Option<&str>) -> String {
    match last {
        Some(time) if number > 0 => format!("{number} ({} ago)", time::age(Some(time))),
        _ => number.to_string(),
    }
}

fn is_sidecar(container: &Value) -> bool {
    at(container, "/restartPolicy") == "Always"
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a str> {
    let found = list(pod, "/status/conditions").iter().find(|condition| at(condition, "/type") == kind);
    found.map(|condition| at(condition, "/status"))
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, at(gate, "/conditionType")) == Some("True")).count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_status_word() {
        let running = json!({"running": {}});
        let cases = [
            (json!({"phase": "Pending"}), "0/1 Pending 0"),
            (
                json!({"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 0, "state": running}]}),
                "1/1 Running 0",
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [
                    {"restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
                "0/1 ImagePullBackOff 0",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    {"restartCount": 0, "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}),
                "0/1 Error 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"restartCount": 2, "state": {"terminated": {"exitCode": 3}}}]}),
                "0/1 ExitCode:3 2",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"restartCount": 0, "state": running}]}),
                "0/1 Init:0/0 0",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/1 Evicted 0"),
        ];
        for (status, expected) in cases {
            let pod = json!({"spec": {"containers": [{"name": "c"}]}, "status": status});
            let cells = cells(&pod);
            let shown: Vec<&str> = cells[1..4].iter().map(|cell| cell.as_str().unwrap()).collect();
            assert_eq!(shown.join(" "), expected, "{pod}");
        }
    }

    #[test]
    fn a_deleted_pod_terminates() {
        let pod = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}});
        assert_eq!(Summary::of(&pod).word, "Terminating");
    }
}
