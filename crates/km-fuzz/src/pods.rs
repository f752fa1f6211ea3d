//! Pods as users write them, and what is kept in their annotations and labels.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_kube::{defaults, keys, pod::DefaultLimits, validation};
use km_placement::{Context, Strategy, compile};
use km_podtask::{
    OfferedPorts, PodKey, PortStrategy, Recovered, discovery_info, executor,
    limits::{Accounting, settle},
    map_ports, recover, roles, strategy_of,
};
use serde_json::{Map, Value, json};

/// Any JSON in a pod's place: it is refused, or goes all the way to what it needs.
pub fn pod(data: &[u8]) {
    let Ok(mut object) = serde_json::from_slice::<Value>(data) else { return };
    defaults::apply("", "Pod", &mut object);
    let valid = validation::create("", "Pod", &object).is_empty();
    let Ok(pod) = serde_json::from_value::<Pod>(object) else { return };
    follow(&pod);
    if valid {
        assert!(!PodKey::of(&pod.metadata).name.is_empty() || pod.metadata.generate_name.is_some());
    }
}

/// A JSON object of annotations on a pod that was launched.
pub fn annotations(data: &[u8]) {
    let Ok(given) = serde_json::from_slice::<BTreeMap<String, String>>(data) else { return };
    if let Some(resources) = given.get(keys::EXECUTOR_RESOURCES).and_then(|text| executor::decode_resources(text).ok())
    {
        assert_eq!(executor::decode_resources(&executor::encode_resources(&resources)).ok(), Some(resources));
    }
    let annotations: Map<String, Value> = given.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let pod = json!({
        "metadata": { "namespace": "default", "name": "p", "uid": "u", "annotations": annotations, "labels": annotations },
        "spec": { "containers": [{ "name": "c", "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 82 }] }] },
    });
    if let Ok(pod) = serde_json::from_value(pod) {
        follow(&pod);
    }
}

/// The way of a pod through the scheduler.
fn follow(pod: &Pod) {
    if let Ok(Recovered::Task(task)) = recover(Duration::ZERO, pod) {
        assert!(task.flags.bound && !task.agent_id.is_empty() && !task.hostname.is_empty());
    }
    let mine = ["a".to_owned(), roles::ANY.to_owned()];
    let allowed = roles::of_pod(pod, &mine, &[]);
    assert!(allowed.iter().all(|role| mine.contains(role)), "{allowed:?} are roles of the framework");
    for strategy in [PortStrategy::Fixed, PortStrategy::Wildcard] {
        let offered = [OfferedPorts { begin: 80, end: 90, role: roles::ANY.to_owned() }];
        let Some(spec) = &pod.spec else { break };
        let Ok(entries) = map_ports(spec, &offered, &mine, strategy_of(pod, strategy)) else { continue };
        assert!(entries.iter().all(|entry| (80..=90).contains(&entry.host_port)), "{entries:?} were offered");
        discovery_info(pod, &entries);
    }
    for accounting in [Accounting::Requests, Accounting::Limits] {
        let totals = settle(&mut pod.clone(), accounting, &DefaultLimits::default());
        assert!(accounting == Accounting::Limits || totals.milli_cpu > 0, "Mesos refuses a task without resources");
    }
    let strategy = pod.metadata.annotations.as_ref().and_then(|known| known.get(keys::PLACEMENT));
    if let Some(strategy) = strategy.and_then(|name| Strategy::parse(name)) {
        assert_eq!(Strategy::parse(strategy.name()), Some(strategy));
    }
    if let Err(error) = compile(pod, Context::default()) {
        assert!(!error.to_string().is_empty(), "an error says what is wrong");
    }
}
