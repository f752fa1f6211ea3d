//! Packing on what Mesos offers: pools, roles, executors, ports, owners, messages.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use km_placement::{
    Amounts, ExecutorNeed, HostPort, NodeView, PendingPod, Plan, Policy, Pool, PortNeed, PortSet, Ports, Refusal,
    Share, Snapshot, Strategy, place,
};
use proptest::prelude::*;

const MIB: i64 = 1 << 20;

fn amounts(milli_cpu: i64, mebibytes: i64) -> Amounts {
    Amounts { milli_cpu, memory_bytes: mebibytes * MIB, ..Amounts::default() }
}

fn share(role: &str, free: Amounts) -> Share {
    Share { role: role.into(), free, ports: Ports::Only(PortSet::new([(31_000, 31_003)])) }
}

fn agent(name: &str, free: Amounts) -> NodeView {
    NodeView {
        name: name.into(),
        capacity: free.clone(),
        port_universe: Some(PortSet::new([(31_000, 31_003)])),
        pools: vec![Pool { role: "*".into(), shares: vec![share("*", free)] }],
        ..NodeView::default()
    }
}

fn fresh(name: &str, free: Amounts) -> NodeView {
    let need = ExecutorNeed { pool_role: "*".into(), shares: vec![("*".into(), amounts(250, 128))] };
    NodeView { executor: Some(need), ..agent(name, free) }
}

fn pod(name: &str, amounts: Amounts, owner: Option<&str>) -> PendingPod {
    let mut pod = Pod { spec: Some(PodSpec::default()), ..Pod::default() };
    pod.metadata.name = Some(name.into());
    PendingPod {
        pod: pod.into(),
        amounts,
        roles: vec!["*".into()],
        owner: owner.map(str::to_owned),
        ..PendingPod::default()
    }
}

fn per_node(plan: &Plan, nodes: usize) -> Vec<usize> {
    (0..nodes).map(|node| plan.placed.iter().filter(|placed| placed.node == node).count()).collect()
}

fn replicas(count: usize, owner: Option<&str>) -> Vec<PendingPod> {
    (0..count).map(|number| pod(&format!("p{number}"), amounts(250, 64), owner)).collect()
}

#[test]
fn replicas_land_on_both_fresh_agents() {
    let nodes = vec![fresh("a", amounts(4000, 4096)), fresh("b", amounts(4000, 4096))];
    for strategy in [Strategy::Pack, Strategy::Spread] {
        let policy = Policy { strategy, ..Policy::default() };
        let plan = place(&Snapshot { nodes: nodes.clone() }, &replicas(4, Some("rs")), &policy);
        assert_eq!(per_node(&plan, 2), [2, 2], "{strategy:?}");
        assert_eq!(plan.placed.iter().filter(|placed| placed.with_executor).count(), 2);
    }
}

#[test]
fn pods_without_an_owner_are_packed_or_spread() {
    let nodes = vec![agent("a", amounts(4000, 4096)), agent("b", amounts(4000, 4096))];
    let pack = place(&Snapshot { nodes: nodes.clone() }, &replicas(4, None), &Policy::default());
    assert_eq!(per_node(&pack, 2), [4, 0]);
    let policy = Policy { strategy: Strategy::Spread, ..Policy::default() };
    let spread = place(&Snapshot { nodes }, &replicas(4, None), &policy);
    assert_eq!(per_node(&spread, 2), [2, 2]);
}

#[test]
fn running_replicas_count_for_the_spread() {
    let mut busy = agent("a", amounts(4000, 4096));
    busy.owners = BTreeMap::from([("rs".to_owned(), 2)]);
    let nodes = vec![busy, agent("b", amounts(4000, 4096))];
    let plan = place(&Snapshot { nodes }, &replicas(4, Some("rs")), &Policy::default());
    assert_eq!(per_node(&plan, 2), [1, 3]);
}

#[test]
fn the_executor_takes_its_part_first() {
    let snapshot = Snapshot { nodes: vec![fresh("a", amounts(1000, 1024))] };
    let fits = place(&snapshot, &[pod("p", amounts(750, 896), None)], &Policy::default());
    assert!(fits.placed[0].with_executor);
    let plan = place(&snapshot, &[pod("p", amounts(751, 897), None)], &Policy::default());
    let why = &plan.refused[0].why;
    assert_eq!(why.to_string(), "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.");
    let nearest = why.nearest.as_ref().expect("resources alone are short");
    assert_eq!(nearest.lacking, [("cpu".to_owned(), 1), ("memory".to_owned(), MIB)]);
}

#[test]
fn a_pod_takes_only_from_its_roles() {
    let mut node = agent("a", amounts(4000, 4096));
    node.pools[0].shares = vec![share("*", amounts(1000, 1024)), share("prod", amounts(1000, 1024))];
    let snapshot = Snapshot { nodes: vec![node] };
    let with_roles = |roles: &[&str], milli: i64| PendingPod {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..pod("p", amounts(milli, 64), None)
    };
    let fits = |pod: PendingPod| place(&snapshot, &[pod], &Policy::default()).refused.is_empty();
    assert!(fits(with_roles(&["prod"], 1000)));
    assert!(!fits(with_roles(&["prod"], 1001)));
    assert!(fits(with_roles(&["prod", "*"], 2000)));
    assert!(!fits(with_roles(&[], 1)));
}

#[test]
fn host_ports_come_from_the_offer() {
    let snapshot = Snapshot { nodes: vec![agent("a", amounts(4000, 4096))] };
    let named = |port: u16| HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port };
    let with = |numbers: &[u16], any: usize| PendingPod {
        ports: PortNeed { named: numbers.iter().map(|number| named(*number)).collect(), any },
        ..pod("p", amounts(10, 1), None)
    };
    let pods = [with(&[31_001], 1), with(&[31_001], 0), with(&[], 2), with(&[], 1), with(&[80], 0)];
    let plan = place(&snapshot, &pods, &Policy::default());
    assert_eq!(plan.placed.iter().map(|placed| placed.pod).collect::<Vec<_>>(), [0, 2]);
    let text = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(plan.refused[0].why.to_string(), text);
    assert_eq!(
        plan.refused[2].why.to_string(),
        format!("{text} No agent offers host port 80; agents offer ports 31000-31003.")
    );
}

#[test]
fn what_no_agent_has_is_said_clearly() {
    let nodes = vec![agent("a", amounts(4000, 4096)), agent("b", amounts(2000, 1024))];
    let plan = place(&Snapshot { nodes }, &[pod("p", amounts(64_000, 64), None)], &Policy::default());
    assert_eq!(
        plan.refused[0].why.to_string(),
        "0/2 nodes are available: 2 Insufficient cpu. The pod needs cpu 64, but the largest agent has 4."
    );
    let none = place(&Snapshot::default(), &[pod("p", amounts(1, 1), None)], &Policy::default());
    assert_eq!(none.refused[0].why.to_string(), "no nodes available to schedule pods");
}

#[test]
fn a_blocked_node_says_why() {
    let blocked = NodeView { blocked: Some(Refusal::NoOffer), ..agent("a", amounts(4000, 4096)) };
    let plan = place(&Snapshot { nodes: vec![blocked] }, &[pod("p", amounts(1, 1), None)], &Policy::default());
    let text = "0/1 nodes are available: 1 node(s) had no resource offer from Mesos.";
    assert_eq!(plan.refused[0].why.to_string(), text);
}

#[test]
fn the_more_important_pod_goes_first() {
    let snapshot = Snapshot { nodes: vec![agent("a", amounts(250, 4096))] };
    let urgent = PendingPod { priority: 10, ..pod("urgent", amounts(250, 64), None) };
    let plan = place(&snapshot, &[pod("first", amounts(250, 64), None), urgent], &Policy::default());
    assert_eq!(plan.placed.iter().map(|placed| placed.pod).collect::<Vec<_>>(), [1]);
}

proptest! {
    /// Plans never take more than there is, and are the same for the same input.
    #[test]
    fn a_plan_never_exceeds_the_offers(
        sizes in proptest::collection::vec((0..4000i64, 0..2048i64, any::<bool>()), 0..6),
        wants in proptest::collection::vec((1..1500i64, 1..700i64, 0..3usize, 0..3u8), 0..40),
        spread in any::<bool>(),
    ) {
        let nodes: Vec<NodeView> = sizes
            .iter()
            .enumerate()
            .map(|(number, (cpu, memory, runs))| {
                let make = if *runs { agent } else { fresh };
                make(&format!("n{number}"), amounts(*cpu, *memory))
            })
            .collect();
        let pods: Vec<PendingPod> = wants
            .iter()
            .map(|(cpu, memory, any, owner)| PendingPod {
                ports: PortNeed { named: vec![], any: *any },
                ..pod("p", amounts(*cpu, *memory), (*owner > 0).then_some(if *owner == 1 { "x" } else { "y" }))
            })
            .collect();
        let snapshot = Snapshot { nodes };
        let strategy = if spread { Strategy::Spread } else { Strategy::Pack };
        let policy = Policy { strategy, ..Policy::default() };
        let plan = place(&snapshot, &pods, &policy);
        prop_assert_eq!(&plan, &place(&snapshot, &pods, &policy));
        prop_assert_eq!(plan.placed.len() + plan.refused.len(), pods.len());
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let mine: Vec<_> = plan.placed.iter().filter(|placed| placed.node == index).collect();
            let executors = mine.iter().filter(|placed| placed.with_executor).count();
            prop_assert_eq!(executors, usize::from(node.executor.is_some() && !mine.is_empty()));
            let overhead = if executors > 0 { amounts(250, 128) } else { Amounts::default() };
            let cpu: i64 = mine.iter().map(|placed| pods[placed.pod].amounts.milli_cpu).sum();
            let memory: i64 = mine.iter().map(|placed| pods[placed.pod].amounts.memory_bytes).sum();
            let ports: usize = mine.iter().map(|placed| pods[placed.pod].ports.any).sum();
            prop_assert!(cpu + overhead.milli_cpu <= node.capacity.milli_cpu);
            prop_assert!(memory + overhead.memory_bytes <= node.capacity.memory_bytes);
            prop_assert!(ports <= 4);
        }
    }
}
