//! Reads a pod's needs.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{self as api, Affinity, Container, Pod, PodAffinityTerm, PodSpec};
use km_kube::{
    keys,
    selector::{LabelRequirement, Operator},
};
use thiserror::Error;

use super::{Mates, Need, NodeTerm, PortNeed, Spread, Term, Toleration, terms::Holder};
use crate::{
    Amounts,
    constraint::{self, ConstraintError},
    strategy::Strategy,
    volumes,
};

/// What isn't read from the pod, because the cluster's settings decide it.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// What it takes of an agent.
    pub amounts: Amounts,
    /// Reservation roles it may take from, the preferred first.
    pub roles: Vec<String>,
    /// Roles in whose name it may be launched; any when empty.
    pub pools: Vec<String>,
    /// Keys of taints that it tolerates besides those that it says itself.
    pub tolerated: Vec<String>,
    /// How many host ports it needs besides the named ones.
    pub any_ports: usize,
    /// Soft spread constraints (label and skew) of pods that have none, and whom they are spread among.
    pub default_spread: Vec<(String, i64)>,
    pub mates: Mates,
    /// Whose instance it is.
    pub owner: Option<String>,
    /// The pod has its node: that it names it tells it apart from no pod that waits.
    pub placed: bool,
}

/// A wish of the pod that can't be understood. Nothing is placed against a wish.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NeedError {
    #[error("annotation {key}: {0}", key = keys::CONSTRAINTS)]
    Constraint(#[from] ConstraintError),
    #[error("annotation {key}: {0:?} is none of {known}", key = keys::PLACEMENT, known = Strategy::NAMES.join(", "))]
    Strategy(String),
}

/// Reads what placement must know of a pod.
pub fn compile(pod: &Pod, context: Context) -> Result<Need, NeedError> {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().filter(|name| !name.is_empty());
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let holder = Holder { namespace: &namespace, labels: &labels };
    let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let strategy = match annotation(keys::PLACEMENT) {
        None => None,
        Some(text) => Some(Strategy::parse(text).ok_or_else(|| NeedError::Strategy(text.to_owned()))?),
    };
    let constraints = match annotation(keys::CONSTRAINTS) {
        None => Vec::new(),
        Some(text) => constraint::parse(text)?,
    };
    let spread: Vec<Spread> = match spec.topology_spread_constraints.as_deref().unwrap_or_default() {
        [] if context.mates == Mates::default() => Vec::new(),
        [] => {
            let defaults = context.default_spread.iter();
            defaults.map(|one| holder.default_spread(one, &context.mates, context.owner.as_ref())).collect()
        }
        own => own.iter().map(|one| holder.spread(one)).collect(),
    };
    let affinity = spec.affinity.clone().unwrap_or_default();
    let (near, apart, liked) = pod_terms(&holder, &affinity);
    let node = affinity.node_affinity.unwrap_or_default();
    let required = node.required_during_scheduling_ignored_during_execution;
    let preferred = node.preferred_during_scheduling_ignored_during_execution.unwrap_or_default();
    Ok(Need {
        owner: context.owner,
        priority: spec.priority.unwrap_or_default(),
        amounts: context.amounts,
        roles: context.roles,
        pools: context.pools,
        ports: PortNeed { named: super::host_ports(spec), any: context.any_ports },
        strategy,
        gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
        preempts: spec.preemption_policy.as_deref() != Some("Never"),
        node_name: spec.node_name.clone().filter(|name| !name.is_empty() && !context.placed),
        node_selector: spec.node_selector.iter().flatten().map(equal).collect(),
        node_terms: required.map(|required| required.node_selector_terms.iter().map(NodeTerm::new).collect()),
        preferred_nodes: preferred.iter().map(|one| (one.weight, NodeTerm::new(&one.preference))).collect(),
        tolerations: tolerations(spec, &context.tolerated),
        spread,
        near,
        apart,
        liked,
        constraints,
        claims: volumes::claims(&namespace, pod.metadata.name.as_deref().unwrap_or_default(), spec),
        images: spec.containers.iter().filter_map(|container| container.image.as_deref()).map(with_tag).collect(),
        scored: scored(spec),
        namespace,
        labels,
    })
}

fn tolerations(spec: &PodSpec, more: &[String]) -> Vec<Toleration> {
    let exists = |key: &String| api::Toleration {
        key: Some(key.clone()),
        operator: Some("Exists".to_owned()),
        ..api::Toleration::default()
    };
    let own = spec.tolerations.iter().flatten().map(Toleration::new);
    own.chain(more.iter().map(|key| Toleration::new(&exists(key)))).collect()
}

fn equal((key, value): (&String, &String)) -> LabelRequirement {
    LabelRequirement { key: key.clone(), operator: Operator::In, values: vec![value.clone()] }
}

type PodTerms = (Vec<Term>, Vec<Term>, Vec<(i32, Term)>);

/// Required affinity, required anti-affinity, preferences of both kinds.
fn pod_terms(holder: &Holder<'_>, affinity: &Affinity) -> PodTerms {
    let terms = |list: Option<&Vec<PodAffinityTerm>>| -> Vec<Term> {
        list.into_iter().flatten().map(|term| holder.term(term)).collect()
    };
    let near = affinity.pod_affinity.as_ref();
    let apart = affinity.pod_anti_affinity.as_ref();
    let likes = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref());
    let dislikes = apart.and_then(|apart| apart.preferred_during_scheduling_ignored_during_execution.as_ref());
    let likes = likes.into_iter().flatten().map(|one| (one.weight, holder.term(&one.pod_affinity_term)));
    let dislikes = dislikes.into_iter().flatten().map(|one| (-one.weight, holder.term(&one.pod_affinity_term)));
    (
        terms(near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())),
        terms(apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref())),
        likes.chain(dislikes).collect(),
    )
}

/// Without tag and digest `latest` is meant.
fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains(':') || name.contains('@') { image.to_owned() } else { format!("{image}:latest") }
}

/// CPU and memory that a container without a request is scored with, as Kubernetes does.
const SCORED_MILLI_CPU: i64 = 100;
const SCORED_MEMORY: i64 = 200 << 20;

/// An explicit zero stays zero. Only a pod with a container that leaves a request out is copied.
fn scored(spec: &PodSpec) -> [i64; 2] {
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let counted =
        if all.all(km_kube::pod::names_its_requests) { Cow::Borrowed(spec) } else { Cow::Owned(filled(spec)) };
    let sum = km_kube::pod::requests(&counted);
    [sum.milli_cpu, sum.memory_bytes]
}

fn filled(spec: &PodSpec) -> PodSpec {
    let mut filled = spec.clone();
    let fill = |container: &mut Container| {
        let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
        let cpu = km_kube::quantity::Quantity::from_milli(SCORED_MILLI_CPU);
        let memory = km_kube::quantity::Quantity::from_bytes(SCORED_MEMORY);
        requests.entry("cpu".to_owned()).or_insert_with(|| cpu.into());
        requests.entry("memory".to_owned()).or_insert_with(|| memory.into());
    };
    filled.containers.iter_mut().for_each(fill);
    filled.init_containers.iter_mut().flatten().for_each(fill);
    filled
}
