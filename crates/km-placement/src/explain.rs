//! Why a pod fits nowhere, summed up and node by node.

use std::collections::BTreeMap;

use km_kube::quantity::Quantity;

use crate::{
    class::{Class, World},
    engine::Engine,
    fit::{Change, Node},
    need::Need,
    node::Pool,
    nodes::Nodes,
    place::PendingPod,
    ports::PortSet,
    reasons::{Nearest, Refusal, Summary},
};

/// One node's view of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub node: String,
    /// Why it refuses the pod; none when it fits.
    pub refusal: Option<Refusal>,
    /// Resources that it lacks (milli-CPUs, bytes, units).
    pub lacking: Vec<(String, i64)>,
}

impl Engine {
    /// What each node says to a pod, in the order in which the nodes came.
    pub fn explain(&mut self, pod: &PendingPod) -> Vec<Explanation> {
        self.with_class(&pod.need, |class, world| {
            let look = |(id, node): (u32, &Node)| {
                let refusal = refusal_of(class, id, &pod.id, world);
                let lacking = match refusal {
                    Some(Refusal::Insufficient(_)) => least_lacking(node, &pod.need),
                    _ => Vec::new(),
                };
                Explanation { node: node.name.clone(), refusal, lacking }
            };
            world.nodes.iter().map(look).collect()
        })
    }
}

/// Room that is kept for the pod itself doesn't count against it.
fn refusal_of(class: &Class, node: u32, pod: &str, world: World<'_>) -> Option<Refusal> {
    let come = world.nominees.others_on(node, &class.need, pod);
    class.check(node, &come, world).err()
}

pub(crate) fn summarize(class: &Class, pod: &str, world: World<'_>) -> Summary {
    let need = &class.need;
    let mut counts: BTreeMap<Refusal, usize> = BTreeMap::new();
    let mut nearest: Option<(Distance, u32)> = None;
    for (id, node) in world.nodes.iter() {
        let Some(refusal) = refusal_of(class, id, pod, world) else { continue };
        if let Refusal::Insufficient(_) = refusal
            && let Some(distance) = node.pools_for(need).filter_map(|(_, pool)| distance(node, pool, need)).min()
        {
            nearest = Some(nearest.map_or((distance, id), |best| best.min((distance, id))));
        }
        *counts.entry(refusal).or_default() += 1;
    }
    let mut summary = Summary { nodes: world.nodes.len(), ..Summary::default() };
    counts.iter().for_each(|(refusal, count)| summary.count(refusal, *count));
    summary.nearest = nearest.map(|(_, id)| {
        let node = world.nodes.at(id);
        Nearest { node: node.name.clone(), lacking: least_lacking(node, need) }
    });
    summary.notes = never_met(need, world.nodes);
    summary
}

/// Fewer resources lacking is nearer, then less of them.
type Distance = (usize, i64);

/// None when the pool lacks nothing.
fn distance(node: &Node, pool: &Pool, need: &Need) -> Option<Distance> {
    let mut distance = (0, 0);
    node.each_lacking(pool, need, &Change::default(), &mut |_, amount| {
        distance = (distance.0 + 1, distance.1 + amount);
    });
    (distance.0 > 0).then_some(distance)
}

/// What the pool that lacks least lacks.
fn least_lacking(node: &Node, need: &Need) -> Vec<(String, i64)> {
    let near = node.pools_for(need).filter_map(|(_, pool)| Some((distance(node, pool, need)?, pool)));
    let mut lacking = Vec::new();
    if let Some((_, pool)) = near.min_by_key(|(distance, _)| *distance) {
        node.each_lacking(pool, need, &Change::default(), &mut |name, amount| lacking.push((name.to_owned(), amount)));
    }
    lacking
}

/// What no agent could give even if nothing else ran there.
fn never_met(need: &Need, nodes: &Nodes) -> Vec<String> {
    let mut notes = Vec::new();
    let mut too_large = |name: &str, want: i64, show: &dyn Fn(i64) -> String, have: &dyn Fn(&Node) -> i64| {
        let largest = nodes.iter().map(|(_, node)| have(node)).max();
        if let Some(largest) = largest.filter(|largest| want > *largest) {
            let (want, largest) = (show(want), show(largest));
            notes.push(format!("The pod needs {name} {want}, but the largest agent has {largest}"));
        }
    };
    let amounts = &need.amounts;
    let milli = |amount: i64| Quantity::from_milli(amount).to_string();
    let bytes = |amount: i64| Quantity::from_bytes(amount).to_string();
    let plain = |amount: i64| amount.to_string();
    too_large("cpu", amounts.milli_cpu, &milli, &|node| node.facts.capacity.milli_cpu);
    too_large("memory", amounts.memory_bytes, &bytes, &|node| node.facts.capacity.memory_bytes);
    for (name, want) in &amounts.other {
        too_large(name, *want, &plain, &|node| node.facts.capacity.other.get(name).copied().unwrap_or(0));
    }
    notes.extend(ports_never_offered(need, nodes));
    notes
}

fn ports_never_offered(need: &Need, nodes: &Nodes) -> Vec<String> {
    if need.ports.named.is_empty() {
        return Vec::new();
    }
    let universes: Vec<&PortSet> = nodes.iter().filter_map(|(_, node)| node.facts.port_universe.as_ref()).collect();
    if universes.len() < nodes.len() || universes.is_empty() {
        return Vec::new();
    }
    let all = universes.iter().fold(PortSet::default(), |all, one| all.union(one));
    let missing = need.ports.named.iter().filter(|port| !all.contains(port.port));
    let offered = if all.is_empty() { "no ports at all".to_owned() } else { format!("ports {all}") };
    missing.map(|port| format!("No agent offers host port {}; agents offer {offered}", port.port)).collect()
}
