//! Tables and properties of `pod`.

use super::*;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Value, json};

fn spec(value: Value) -> PodSpec {
    serde_json::from_value(value).unwrap()
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

fn init(cpu: &str) -> Value {
    json!({"name": "i", "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn requests_take_the_larger_of_init_and_run() {
    for (name, pod, milli) in [
        ("sum", json!({"containers": [container("100m", "1Mi"), container("200m", "1Mi")]}), 300),
        ("init smaller", json!({"containers": [container("300m", "0")], "initContainers": [init("200m")]}), 300),
        ("init larger", json!({"containers": [container("300m", "0")], "initContainers": [init("1")]}), 1000),
        (
            "sidecar runs along",
            json!({"containers": [container("300m", "0")], "initContainers": [sidecar("200m")]}),
            500,
        ),
        (
            "init after sidecar",
            json!({"containers": [container("1m", "0")], "initContainers": [sidecar("200m"), init("1")]}),
            1200,
        ),
        (
            "init before sidecar",
            json!({"containers": [container("1m", "0")], "initContainers": [init("1"), sidecar("200m")]}),
            1000,
        ),
        ("overhead", json!({"containers": [container("1m", "0")], "overhead": {"cpu": "9m"}}), 10),
        ("pod level", json!({"containers": [container("1m", "0")], "resources": {"requests": {"cpu": "2"}}}), 2000),
    ] {
        assert_eq!(requests(&spec(pod)).milli_cpu, milli, "{name}");
    }
}

#[test]
fn limits_and_other_resources() {
    let pod = spec(json!({"containers": [
        {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi", "x.io/gpu": "2"}}},
        {"name": "b"},
    ]}));
    let totals = limits(&pod);
    assert_eq!((totals.milli_cpu, totals.memory_bytes), (1000, 1 << 30));
    assert_eq!(totals.other.get("x.io/gpu"), Some(&2));
}

#[test]
fn qos_classes() {
    for (pod, want) in [
        (json!({"containers": [{"name": "a"}]}), QosClass::BestEffort),
        (json!({"containers": [container("1", "1Gi")]}), QosClass::Guaranteed),
        (
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1"}}}]}),
            QosClass::Guaranteed,
        ),
        (json!({"containers": [container("1", "1Gi"), {"name": "b"}]}), QosClass::Burstable),
        (json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}), QosClass::Burstable),
        (json!({"containers": [{"name": "a", "resources": {"limits": {"x.io/gpu": "1"}}}]}), QosClass::BestEffort),
    ] {
        assert_eq!(qos_class(&spec(pod.clone())), want, "{pod}");
    }
}

#[test]
fn host_ports_are_listed() {
    let mut pod = spec(json!({"containers": [{"name": "a", "ports": [
        {"containerPort": 80}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}]}]}));
    let ports = host_ports(&pod);
    assert_eq!(ports.len(), 1);
    assert_eq!((ports[0].port, ports[0].host_port, ports[0].protocol.as_str()), (1, 5353, "UDP"));
    pod.host_network = Some(true);
    assert_eq!(host_ports(&pod).iter().map(|port| port.host_port).collect::<Vec<_>>(), [80, 5353]);
}

#[test]
fn default_limits_follow_the_original_rule() {
    for (resources, cpu, memory) in [
        (json!({}), ("250m", "250m"), ("64Mi", "64Mi")),
        (json!({"requests": {"cpu": "1"}}), ("1", "1"), ("64Mi", "64Mi")),
        (json!({"limits": {"memory": "1Gi"}}), ("250m", "250m"), ("1Gi", "1Gi")),
        (json!({"limits": {"cpu": "1m", "memory": "1Mi"}}), ("10m", "10m"), ("32Mi", "32Mi")),
        (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), ("1", "2"), ("64Mi", "64Mi")),
    ] {
        let mut pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})).unwrap();
        assert!(apply_default_limits(&mut pod, &DefaultLimits::default()));
        let settled = pod.spec.as_ref().unwrap().containers[0].resources.clone().unwrap();
        let (requests, limits) = (settled.requests.unwrap(), settled.limits.unwrap());
        assert_eq!((requests["cpu"].0.as_str(), limits["cpu"].0.as_str()), cpu, "{resources}");
        assert_eq!((requests["memory"].0.as_str(), limits["memory"].0.as_str()), memory, "{resources}");
        assert!(!apply_default_limits(&mut pod, &DefaultLimits::default()), "the second time changes nothing");
    }
}

#[test]
fn states() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"containers": [], "nodeName": "n"},
        "status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "True"}]}
    }))
    .unwrap();
    assert!(is_terminal(&pod) && is_scheduled(&pod) && is_mirror(&pod) && is_ready(&pod) && !is_deleting(&pod));
    assert!(!is_terminal(&Pod::default()) && !is_scheduled(&Pod::default()) && !is_ready(&Pod::default()));
}
