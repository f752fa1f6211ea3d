//! The placement rules of Kubernetes from data: `data/kubernetes.json` (facts about Kubernetes 1.37).

mod cluster;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
        policy::v1::PodDisruptionBudget,
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use km_placement::{Budget, Engine, FitScoring, Kubernetes, Policy, ResourceWeight, Shape};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    id: String,
    nodes: Vec<Node>,
    existing: Vec<Pod>,
    pod: Option<Pod>,
    #[serde(default)]
    pods: Vec<Pod>,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default)]
    other: Other,
    #[serde(default)]
    config: Config,
    expect: Expected,
}

/// How resources are scored.
#[derive(Default, Deserialize)]
struct Config {
    strategy: Option<String>,
    resources: Option<Vec<Weighted>>,
    #[serde(default)]
    shape: Vec<Point>,
}

#[derive(Deserialize)]
struct Weighted {
    name: String,
    weight: i64,
}

#[derive(Deserialize)]
struct Point {
    utilization: i64,
    score: i64,
}

#[derive(Default, Deserialize)]
struct Other {
    #[serde(default, rename = "queuedAt")]
    queued_at: BTreeMap<String, u64>,
    #[serde(default)]
    namespaces: Vec<Namespace>,
    #[serde(default)]
    pdbs: Vec<PodDisruptionBudget>,
    #[serde(default)]
    nominated: Vec<Pod>,
    #[serde(default)]
    pvcs: Vec<PersistentVolumeClaim>,
    #[serde(default)]
    pvs: Vec<PersistentVolume>,
    #[serde(default, rename = "storageClasses")]
    storage_classes: Vec<StorageClass>,
}

#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    feasible: BTreeSet<String>,
    #[serde(default)]
    reasons: BTreeMap<String, String>,
    #[serde(default)]
    order: Vec<String>,
    #[serde(default)]
    scores: BTreeMap<String, BTreeMap<String, i64>>,
    #[serde(default)]
    score_order: Vec<String>,
    victims: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    chosen: Value,
}

/// The text of the event that a reason code of the data stands for.
fn texts(code: &str) -> Vec<String> {
    let text = match code {
        "unschedulable" => "node(s) were unschedulable",
        "node-name" => "node(s) didn't match the requested node name",
        "taint" => "node(s) had untolerated taint(s)",
        "node-affinity" => "node(s) didn't match Pod's node affinity/selector",
        "ports" => "node(s) didn't have free ports for the requested pod ports",
        "gated" => "node(s) are closed to a pod with scheduling gates",
        "spread" => "node(s) didn't match pod topology spread constraints",
        "spread-missing-label" => "node(s) didn't match pod topology spread constraints (missing required label)",
        "affinity" => "node(s) didn't match pod affinity rules",
        "anti-affinity" => "node(s) didn't match pod anti-affinity rules",
        "pvc-missing" => "persistentvolumeclaim \"data\" not found",
        "pvc-unbound-immediate" => "pod has unbound immediate PersistentVolumeClaims",
        "rwop" => "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
        "pv-node-affinity" => "node(s) didn't match PersistentVolume's node affinity",
        "no-pv-to-bind" => "node(s) didn't find available persistent volumes to bind",
        "volume-zone" => "node(s) had no available volume zone",
        "existing-anti-affinity" => "node(s) didn't satisfy existing pods anti-affinity rules",
        _ => {
            let names = code.strip_prefix("resources:").unwrap_or_else(|| panic!("unknown code {code}"));
            let text = |name: &str| match name {
                "pods" => "Too many pods".to_owned(),
                _ => format!("Insufficient {name}"),
            };
            return names.split(',').map(text).collect();
        }
    };
    vec![text.to_owned()]
}

fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().expect("a name")
}

fn engine(case: &Case) -> Engine {
    let comparison_tolerations = case.gates.get("TaintTolerationComparisonOperators").copied().unwrap_or_default();
    let policy = Policy { comparison_tolerations, ..Policy::default() };
    let mut engine = cluster::engine(policy, &case.nodes, &case.existing);
    for namespace in &case.other.namespaces {
        engine.set_namespace(name_of(&namespace.metadata), namespace.metadata.labels.clone());
    }
    for claim in &case.other.pvcs {
        let name =
            format!("{}/{}", claim.metadata.namespace.as_deref().expect("a namespace"), name_of(&claim.metadata));
        engine.set_claim(&name, Some(claim));
    }
    for volume in &case.other.pvs {
        engine.set_volume(name_of(&volume.metadata), Some(volume));
    }
    for class in &case.other.storage_classes {
        engine.set_storage_class(name_of(&class.metadata), Some(class));
    }
    for budget in &case.other.pdbs {
        let meta = &budget.metadata;
        engine.set_budget(&format!("{:?}/{:?}", meta.namespace, meta.name), Some(Budget::new(budget)));
    }
    for pod in case.other.nominated.iter().chain(&case.pod) {
        let node = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
        let need = cluster::need(&mut engine, pod, false);
        engine.nominate(&cluster::id(pod), &need, node.as_deref());
    }
    engine
}

/// What is wrong with the outcome, if anything.
fn run(case: &Case) -> Result<(), String> {
    let mut engine = engine(case);
    if let Some(pod) = &case.pod {
        filters(case, &mut engine, pod)?;
        scores(case, &mut engine, pod)?;
        if let Some(victims) = &case.expect.victims {
            preemption(case, &mut engine, pod, victims)?;
        }
        return Ok(());
    }
    let roomy: Node = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "n" }, "status": { "allocatable": { "cpu": "1k", "memory": "1Ti" } }
    }))
    .expect("a node");
    let mut engine = cluster::engine(Policy::default(), &[roomy], &[]);
    let pods: Vec<_> = case
        .pods
        .iter()
        .map(|pod| cluster::pending(&mut engine, pod, case.other.queued_at[&cluster::name(pod)]))
        .collect();
    let plan = engine.place_all(&pods);
    let order: Vec<String> = plan.placed.iter().map(|(pod, _)| cluster::name(&case.pods[*pod])).collect();
    if order == case.expect.order { Ok(()) } else { Err(format!("order {order:?}")) }
}

fn filters(case: &Case, engine: &mut Engine, pod: &Pod) -> Result<(), String> {
    let pending = cluster::pending(engine, pod, 0);
    let mut feasible = BTreeSet::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for found in engine.explain(&pending) {
        match found.refusal {
            None => {
                feasible.insert(found.node);
            }
            Some(refusal) => {
                let expected = case.expect.reasons.get(&found.node).map(|code| texts(code)).unwrap_or_default();
                if refusal.texts() != expected {
                    return Err(format!("{}: found {refusal:?}, expected {expected:?}", found.node));
                }
                expected.into_iter().for_each(|text| *counts.entry(text).or_default() += 1);
            }
        }
    }
    if feasible != case.expect.feasible {
        return Err(format!("feasible {feasible:?}"));
    }
    // The decision must agree with the explanation.
    match engine.place(&pending) {
        Ok(placement) if feasible.contains(&placement.node) => {
            engine.undo(placement);
            Ok(())
        }
        Ok(placement) => Err(format!("placed on {}", placement.node)),
        Err(why) if feasible.is_empty() && why.counts == counts => Ok(()),
        Err(why) => Err(format!("not placed: {why}")),
    }
}

fn scoring(config: &Config) -> Kubernetes {
    let mut fit = FitScoring::default();
    if let Some(resources) = &config.resources {
        let weight = |one: &Weighted| ResourceWeight { name: one.name.clone(), weight: one.weight };
        fit.resources = resources.iter().map(weight).collect();
    }
    let points = || config.shape.iter().map(|point| (point.utilization, point.score)).collect();
    fit.shape = match config.strategy.as_deref() {
        None | Some("LeastAllocated") => Shape::LeastAllocated,
        Some("MostAllocated") => Shape::MostAllocated,
        Some("RequestedToCapacityRatio") => Shape::RequestedToCapacityRatio(points()),
        Some(other) => panic!("unknown strategy {other}"),
    };
    Kubernetes { fit }
}

fn scores(case: &Case, engine: &mut Engine, pod: &Pod) -> Result<(), String> {
    let need = cluster::need(engine, pod, false);
    let found = engine.scores(&need, &scoring(&case.config));
    for (plugin, expected) in &case.expect.scores {
        let scores = found.get(plugin.as_str()).ok_or_else(|| format!("no scores of {plugin}"))?;
        if scores != expected {
            return Err(format!("{plugin} gives {scores:?}"));
        }
        if !case.expect.score_order.iter().map(|node| scores[node]).is_sorted_by(|better, worse| better >= worse) {
            return Err(format!("{plugin} orders otherwise: {scores:?}"));
        }
    }
    Ok(())
}

fn preemption(
    case: &Case,
    engine: &mut Engine,
    pod: &Pod,
    expected: &BTreeMap<String, Vec<String>>,
) -> Result<(), String> {
    let pending = cluster::pending(engine, pod, 0);
    let short = |id: &String| id.rsplit('/').next().expect("a name").to_owned();
    let sorted = |ids: &[String]| ids.iter().map(short).collect::<BTreeSet<String>>();
    let found = engine.possible_victims(&pending);
    let found: BTreeMap<&String, BTreeSet<String>> = found.iter().map(|(node, ids)| (node, sorted(ids))).collect();
    let wanted: BTreeMap<&String, BTreeSet<String>> = expected.iter().map(|(node, ids)| (node, sorted(ids))).collect();
    if found != wanted {
        return Err(format!("victims {found:?}"));
    }
    let chosen = engine.preempt(&pending).map(|preemption| preemption.node);
    let allowed: Vec<&str> = match &case.expect.chosen {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    match &chosen {
        Ok(node) if allowed.contains(&node.as_str()) => Ok(()),
        Err(_) if allowed.is_empty() => Ok(()),
        _ => Err(format!("chosen {chosen:?}")),
    }
}

#[test]
fn the_rules_of_kubernetes_hold() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/kubernetes.json")).expect("the data is well-formed");
    let mut failed = Vec::new();
    for case in &cases {
        if let Err(problem) = run(case) {
            failed.push(format!("{}: {problem}", case.id));
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(cases.len(), 298);
}
