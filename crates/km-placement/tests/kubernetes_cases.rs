//! The placement rules of Kubernetes from data: `data/kubernetes.json` (facts about Kubernetes 1.37).
//!
//! Rule families whose filters exist are run here. Families of pod affinity, topology spread, volumes, preemption,
//! node scores and in-place resize have no code yet, and their cases are counted at the end of the test, so that the
//! share is known and a family can't go missing unseen.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use km_kube::{
    pod::{is_terminal, requests},
    quantity::Quantity,
};
use km_placement::{Amounts, NodeView, PendingPod, Policy, Pool, PortNeed, Ports, Share, Snapshot, host_ports, place};
use serde::Deserialize;

const COVERED: [&str; 18] = [
    "filter-order",
    "host-ports",
    "node-affinity-match-fields",
    "node-affinity-required",
    "node-name",
    "node-selector",
    "plan-sequence",
    "queue-order",
    "resources-fit",
    "resources-init-sidecar",
    "resources-other",
    "resources-overhead",
    "resources-pod-level",
    "resources-zero-and-count",
    "scheduling-gates",
    "taint-toleration",
    "taint-toleration-numeric",
    "unschedulable",
];

#[derive(Deserialize)]
struct Case {
    id: String,
    rule: String,
    nodes: Vec<Node>,
    existing: Vec<Pod>,
    pod: Option<Pod>,
    #[serde(default)]
    pods: Vec<Pod>,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default)]
    other: Other,
    expect: Expected,
}

#[derive(Default, Deserialize)]
struct Other {
    #[serde(default, rename = "queuedAt")]
    queued_at: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    feasible: BTreeSet<String>,
    #[serde(default)]
    reasons: BTreeMap<String, String>,
    #[serde(default)]
    order: Vec<String>,
}

fn amounts(list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> Amounts {
    let mut amounts = Amounts::default();
    for (name, quantity) in list.into_iter().flatten() {
        let quantity = Quantity::try_from(quantity).expect("a quantity");
        match name.as_str() {
            "cpu" => amounts.milli_cpu = quantity.milli(),
            "memory" => amounts.memory_bytes = quantity.value(),
            _ => {
                amounts.other.insert(name.clone(), quantity.value());
            }
        }
    }
    amounts
}

fn view(node: &Node, existing: &[Pod]) -> NodeView {
    let name = node.metadata.name.clone().expect("a name");
    let spec = node.spec.clone().unwrap_or_default();
    let mut capacity = amounts(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let max_pods = capacity.other.remove("pods");
    let mut free = capacity.clone();
    let mut used_ports = Vec::new();
    let here = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&name);
    let mine: Vec<&Pod> = existing.iter().filter(here).filter(|pod| !is_terminal(pod)).collect();
    for spec in mine.iter().filter_map(|pod| pod.spec.as_ref()) {
        let used = requests(spec);
        free.milli_cpu -= used.milli_cpu;
        free.memory_bytes -= used.memory_bytes;
        for (name, amount) in used.other {
            *free.other.entry(name).or_default() -= amount;
        }
        used_ports.extend(host_ports(spec));
    }
    let share = Share { role: "*".into(), free, ports: Ports::Any };
    NodeView {
        labels: node.metadata.labels.clone().unwrap_or_default(),
        taints: spec.taints.unwrap_or_default(),
        unschedulable: spec.unschedulable.unwrap_or_default(),
        capacity,
        pools: vec![Pool { role: "*".into(), shares: vec![share] }],
        pod_count: i64::try_from(mine.len()).expect("few pods"),
        max_pods,
        used_ports,
        name,
        ..NodeView::default()
    }
}

fn pending(pod: &Pod, queued: u64) -> PendingPod {
    let spec = pod.spec.clone().unwrap_or_default();
    PendingPod {
        pod: pod.clone().into(),
        amounts: requests(&spec),
        roles: vec!["*".into()],
        ports: PortNeed { named: host_ports(&spec), any: 0 },
        owner: None,
        priority: spec.priority.unwrap_or_default(),
        queued,
    }
}

/// The text of the event that a reason code of the data stands for.
fn texts(code: &str) -> BTreeSet<String> {
    let one = |text: &str| BTreeSet::from([text.to_owned()]);
    match code {
        "unschedulable" => one("node(s) were unschedulable"),
        "node-name" => one("node(s) didn't match the requested node name"),
        "taint" => one("node(s) had untolerated taint(s)"),
        "node-affinity" => one("node(s) didn't match Pod's node affinity/selector"),
        "ports" => one("node(s) didn't have free ports for the requested pod ports"),
        "gated" => one("node(s) are closed to a pod with scheduling gates"),
        _ => match code.strip_prefix("resources:") {
            Some(list) => list
                .split(',')
                .map(|name| if name == "pods" { "Too many pods".to_owned() } else { format!("Insufficient {name}") })
                .collect(),
            None => one(code),
        },
    }
}

/// What is wrong with the outcome, if anything.
fn run(case: &Case) -> Option<String> {
    let policy = Policy {
        comparison_tolerations: case.gates.get("TaintTolerationComparisonOperators").copied().unwrap_or_default(),
        ..Policy::default()
    };
    if !case.pods.is_empty() {
        let roomy = NodeView { name: "n".into(), ..room() };
        let queued = |pod: &Pod| case.other.queued_at[pod.metadata.name.as_ref().expect("a name")];
        let pods: Vec<PendingPod> = case.pods.iter().map(|pod| pending(pod, queued(pod))).collect();
        let plan = place(&Snapshot { nodes: vec![roomy] }, &pods, &policy);
        let order: Vec<String> =
            plan.placed.iter().filter_map(|placed| pods[placed.pod].pod.metadata.name.clone()).collect();
        return (order != case.expect.order).then(|| format!("order {order:?}"));
    }
    let pod = pending(case.pod.as_ref()?, 0);
    // One node at a time: which of them take the pod, and why not the others.
    let mut problems = Vec::new();
    for node in &case.nodes {
        let view = view(node, &case.existing);
        let name = view.name.clone();
        let plan = place(&Snapshot { nodes: vec![view] }, std::slice::from_ref(&pod), &policy);
        let found: BTreeSet<String> =
            plan.refused.iter().flat_map(|refused| refused.why.counts.keys().cloned()).collect();
        let expected = case.expect.reasons.get(&name).map(|code| texts(code)).unwrap_or_default();
        if plan.refused.is_empty() != case.expect.feasible.contains(&name) || found != expected {
            problems.push(format!("{name}: found {found:?}, expected {expected:?}"));
        }
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn room() -> NodeView {
    let free = Amounts { milli_cpu: 1 << 40, memory_bytes: 1 << 50, ..Amounts::default() };
    let share = Share { role: "*".into(), free, ports: Ports::Any };
    NodeView { pools: vec![Pool { role: "*".into(), shares: vec![share] }], ..NodeView::default() }
}

#[test]
fn the_rules_of_kubernetes_hold() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/kubernetes.json")).expect("the data is well-formed");
    let mut failed = Vec::new();
    let mut run_by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    let mut left_out = 0;
    for case in &cases {
        // Cases that need rules without code yet.
        let foreign =
            |code: &String| (code.contains("affinity") && code != "node-affinity") || code.starts_with("spread");
        if !COVERED.contains(&case.rule.as_str()) || case.expect.reasons.values().any(foreign) {
            left_out += 1;
            continue;
        }
        *run_by_rule.entry(case.rule.as_str()).or_default() += 1;
        if let Some(problem) = run(case) {
            failed.push(format!("{}: {problem}", case.id));
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(run_by_rule.len(), COVERED.len(), "a family has no case: {run_by_rule:?}");
    assert_eq!((cases.len() - left_out, left_out), (131, 167));
}
