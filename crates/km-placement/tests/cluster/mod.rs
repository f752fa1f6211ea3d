//! A cluster as Kubernetes sees it, told to the engine: each node offers what its pods leave of it.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use km_kube::pod::{is_deleting, is_terminal, requests};
use km_placement::{
    AssignedPod, Context, Engine, Need, NodeFacts, PendingPod, Policy, Pool, Ports, Share, Supply, compile,
    running_requests,
};

pub const ROLE: &str = "*";

pub fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().expect("a name")
}

pub fn id(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or("default"), name(pod))
}

pub fn need(engine: &mut Engine, pod: &Pod, running: bool) -> Arc<Need> {
    let spec = pod.spec.clone().unwrap_or_default();
    let amounts = if running { running_requests(pod) } else { requests(&spec) };
    let context = Context { amounts, roles: vec![ROLE.to_owned()], ..Context::default() };
    let need = compile(pod, context).expect("the pod's wishes are well-formed");
    engine.share(need)
}

pub fn pending(engine: &mut Engine, pod: &Pod, queued: u64) -> PendingPod {
    PendingPod { id: id(pod), need: need(engine, pod, false), queued }
}

fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn preempted(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "DisruptionTarget" && condition.reason.as_deref() == Some("PreemptionByScheduler")
    })
}

/// An engine that knows these nodes and pods.
pub fn engine(policy: Policy, nodes: &[Node], pods: &[Pod]) -> Engine {
    let mut engine = Engine::new(policy);
    for node in nodes {
        let name = node.metadata.name.clone().expect("a name");
        let facts = NodeFacts::of(node);
        let mut free = facts.capacity.clone();
        for pod in pods.iter().filter(|pod| node_name(pod) == Some(&name) && !is_terminal(pod)) {
            let used = running_requests(pod);
            free.milli_cpu -= used.milli_cpu;
            free.memory_bytes -= used.memory_bytes;
            for (name, amount) in used.other {
                *free.other.entry(name).or_default() -= amount;
            }
        }
        let share = Share { role: ROLE.to_owned(), free, ports: Ports::Any };
        engine.set_node(&name, facts);
        let pools = vec![Pool { role: ROLE.to_owned(), shares: vec![share] }];
        engine.set_supply(&name, Supply { pools, ..Supply::default() });
    }
    for pod in pods.iter().filter(|pod| !is_terminal(pod)) {
        let Some(node) = node_name(pod) else { continue };
        let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let assigned = AssignedPod {
            id: id(pod),
            need: need(&mut engine, pod, true),
            node: node.to_owned(),
            terminating: is_deleting(pod),
            started: started.map_or(0, |time| time.0.as_second()),
            preempted: is_deleting(pod) && preempted(pod),
        };
        engine.set_pod(assigned);
    }
    engine
}

pub fn labels(value: &serde_json::Value) -> BTreeMap<String, String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().expect("a text").to_owned()))
        .collect()
}
