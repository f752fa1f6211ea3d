//! The placement of a batch.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{
    class::{self, Class},
    fit::NodeState,
    pending::PendingPod,
    plan::{Placement, Plan, Refused},
    ports::PortSet,
    reasons::{Nearest, Refusal, Summary},
    score::Policy,
    snapshot::Snapshot,
};

/// Decides for each pod where it goes, the most important first. Each decision sees what the earlier ones took.
///
/// Pods of one class cost a filter over all nodes once, then the logarithm of the number of nodes each.
pub fn place(snapshot: &Snapshot, pods: &[PendingPod], policy: &Policy) -> Plan {
    let mut nodes: Vec<NodeState<'_>> = snapshot.nodes.iter().map(NodeState::new).collect();
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_key(|index| (Reverse(pods[*index].priority), pods[*index].queued, *index));

    let mut classes: BTreeMap<String, (Class, Option<Summary>)> = BTreeMap::new();
    let mut log: Vec<usize> = Vec::new();
    let mut plan = Plan::default();
    for index in order {
        let pod = &pods[index];
        let new = || (Class::new(pod, &nodes, policy, log.len()), None);
        let (class, refusal) = classes.entry(class::key(pod)).or_insert_with(new);
        let place = class.best(pod, &nodes, policy, &log).and_then(|node| Some((node, nodes[node].room(pod).ok()?)));
        let Some((node, pool)) = place else {
            // Room only shrinks within a plan, so a class that was refused stays refused for the same reasons, give or
            // take what the pods between took.
            let why = refusal.get_or_insert_with(|| summarize(pod, &nodes, policy)).clone();
            plan.refused.push(Refused { pod: index, why });
            continue;
        };
        let with_executor = nodes[node].put(pod, pool);
        log.push(node);
        plan.placed.push(Placement { pod: index, node, pool, with_executor });
    }
    plan
}

/// Why no node takes the pod.
fn summarize(pod: &PendingPod, nodes: &[NodeState<'_>], policy: &Policy) -> Summary {
    let mut summary = Summary { nodes: nodes.len(), ..Summary::default() };
    let mut nearest: Option<Nearest> = None;
    for node in nodes {
        let refusal = match node.accepts(pod, policy).and_then(|()| node.room(pod)) {
            Ok(_) => continue,
            Err(refusal) => refusal,
        };
        summary.count(&refusal);
        if let Refusal::Insufficient(_) = refusal {
            for pool in &node.pools {
                let lacking = node.lacking_in(pool, pod);
                let nearer = nearest.as_ref().is_none_or(|best| distance(&lacking) < distance(&best.lacking));
                if !lacking.is_empty() && nearer {
                    nearest = Some(Nearest { node: node.view.name.clone(), lacking });
                }
            }
        }
    }
    summary.nearest = nearest;
    summary.notes = never_met(pod, nodes);
    summary
}

/// Fewer resources lacking is nearer, then less of them.
fn distance(lacking: &[(String, i64)]) -> (usize, i64) {
    (lacking.len(), lacking.iter().map(|(_, amount)| *amount).sum())
}

/// What no agent could give even if nothing else ran there.
fn never_met(pod: &PendingPod, nodes: &[NodeState<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut too_large = |name: &str, want: i64, show: &dyn Fn(i64) -> String, have: &dyn Fn(&NodeState<'_>) -> i64| {
        let largest = nodes.iter().map(have).max().unwrap_or(0);
        if !nodes.is_empty() && want > largest {
            let (want, largest) = (show(want), show(largest));
            notes.push(format!("The pod needs {name} {want}, but the largest agent has {largest}"));
        }
    };
    let amounts = &pod.amounts;
    let plain = |amount: i64| amount.to_string();
    too_large("cpu", amounts.milli_cpu, &milli, &|node| node.view.capacity.milli_cpu);
    too_large("memory", amounts.memory_bytes, &bytes, &|node| node.view.capacity.memory_bytes);
    for (name, want) in &amounts.other {
        too_large(name, *want, &plain, &|node| node.view.capacity.other.get(name).copied().unwrap_or(0));
    }
    let universes: Vec<&PortSet> = nodes.iter().filter_map(|node| node.view.port_universe.as_ref()).collect();
    if universes.len() == nodes.len() && !nodes.is_empty() {
        let all = universes.iter().fold(PortSet::default(), |all, one| all.union(one));
        for port in pod.ports.named.iter().filter(|port| !all.contains(port.port)) {
            let offered = if all.is_empty() { "no ports at all".to_owned() } else { format!("ports {all}") };
            notes.push(format!("No agent offers host port {}; agents offer {offered}", port.port));
        }
    }
    notes
}

/// Milli-CPUs as people write them.
fn milli(amount: i64) -> String {
    km_kube::quantity::Quantity::from_milli(amount).to_string()
}

fn bytes(amount: i64) -> String {
    km_kube::quantity::Quantity::from_bytes(amount).to_string()
}
