//! Packing on what Mesos offers: pools, roles, executors, ports, owners, messages.

mod mesos;

use km_placement::{
    Chooser, Context, Engine, HostPort, Mates, NodeFacts, PendingPod, Plan, Policy, Pool, Refusal, Strategy, Supply,
    compile,
};
use mesos::{Agent, MIB, agent, amounts, engine, fresh, pod, replicas, share};

fn per_node(plan: &Plan, nodes: &[&str]) -> Vec<usize> {
    let on = |node: &&str| plan.placed.iter().filter(|(_, placed)| placed.node == **node).count();
    nodes.iter().map(on).collect()
}

fn refused(plan: &Plan, at: usize) -> String {
    plan.refused[at].1.to_string()
}

fn strategy(strategy: Strategy) -> Policy {
    Policy { strategy, ..Policy::default() }
}

#[test]
fn replicas_land_on_both_fresh_agents() {
    for choice in [Strategy::Pack, Strategy::Spread] {
        let agents = [fresh("a", amounts(4000, 4096)), fresh("b", amounts(4000, 4096))];
        let mut engine = engine(strategy(choice), agents);
        let pods = replicas(&mut engine, 4, Some("rs"));
        let plan = engine.place_all(&pods);
        assert_eq!(per_node(&plan, &["a", "b"]), [2, 2], "{choice:?}");
        assert_eq!(plan.placed.iter().filter(|(_, placed)| placed.with_executor).count(), 2);
    }
}

#[test]
fn pods_without_an_owner_are_packed_or_spread() {
    for (choice, expected) in [(Strategy::Pack, [4, 0]), (Strategy::Spread, [2, 2]), (Strategy::FirstFit, [4, 0])] {
        let mut engine = engine(strategy(choice), [agent("a", amounts(4000, 4096)), agent("b", amounts(4000, 4096))]);
        let pods = replicas(&mut engine, 4, None);
        assert_eq!(per_node(&engine.place_all(&pods), &["a", "b"]), expected, "{choice:?}");
    }
}

#[test]
fn a_pod_may_ask_for_another_strategy() {
    let mut engine = engine(Policy::default(), [agent("a", amounts(4000, 4096)), agent("b", amounts(4000, 4096))]);
    let pods: Vec<PendingPod> = (0..4)
        .map(|number| {
            pod(&mut engine, &format!("p{number}"), amounts(250, 64), |need| need.strategy = Some(Strategy::Spread))
        })
        .collect();
    assert_eq!(per_node(&engine.place_all(&pods), &["a", "b"]), [2, 2]);
}

#[test]
fn first_come_first_served_takes_the_offer_that_came_first() {
    let late = Agent { arrival: 9, ..agent("a", amounts(4000, 4096)) };
    let early = Agent { arrival: 3, ..agent("b", amounts(1000, 4096)) };
    let mut engine = engine(strategy(Strategy::FirstFit), [late, early]);
    let pods = replicas(&mut engine, 6, Some("rs"));
    assert_eq!(per_node(&engine.place_all(&pods), &["a", "b"]), [2, 4]);
}

#[test]
fn a_strategy_of_ones_own_can_be_plugged_in() {
    /// The node with the longest name.
    #[derive(Debug)]
    struct Longest;
    impl Chooser for Longest {
        fn rank(&self, node: &km_placement::Candidate<'_>) -> i64 {
            -i64::try_from(node.name.len()).expect("short")
        }
    }
    let mut engine = Engine::with_chooser(Policy::default(), Box::new(Longest));
    for one in [agent("a", amounts(4000, 4096)), agent("abc", amounts(4000, 4096)), agent("ab", amounts(4000, 4096))] {
        one.tell(&mut engine);
    }
    let pods = replicas(&mut engine, 2, None);
    assert_eq!(per_node(&engine.place_all(&pods), &["abc"]), [2]);
}

#[test]
fn running_replicas_count_for_the_spread() {
    let mut engine = engine(Policy::default(), [agent("a", amounts(4000, 4096)), agent("b", amounts(4000, 4096))]);
    let pods = replicas(&mut engine, 6, Some("rs"));
    for pod in &pods[4..] {
        mesos::assign(&mut engine, pod, "a");
    }
    assert_eq!(per_node(&engine.place_all(&pods[..4]), &["a", "b"]), [1, 3]);
}

#[test]
fn the_executor_takes_its_part_first() {
    let small = || [fresh("a", amounts(1000, 1024))];
    let mut first = engine(Policy::default(), small());
    let fitting = pod(&mut first, "p", amounts(750, 896), |_| {});
    assert!(first.place(&fitting).expect("it fits").with_executor);
    let mut second = engine(Policy::default(), small());
    let large = pod(&mut second, "p", amounts(751, 897), |_| {});
    let why = second.place(&large).expect_err("it is too large");
    assert_eq!(why.to_string(), "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.");
    let nearest = why.nearest.as_ref().expect("resources alone are short");
    assert_eq!(nearest.lacking, [("cpu".to_owned(), 1), ("memory".to_owned(), MIB)]);
}

#[test]
fn a_pod_takes_only_from_its_roles() {
    let fits = |roles: &[&str], milli: i64| {
        let mut node = agent("a", amounts(4000, 4096));
        node.shares = vec![share("*", amounts(1000, 1024)), share("prod", amounts(1000, 1024))];
        let mut engine = engine(Policy::default(), [node]);
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        let pod = pod(&mut engine, "p", amounts(milli, 64), |need| need.roles = roles);
        engine.place(&pod).is_ok()
    };
    assert!(fits(&["prod"], 1000));
    assert!(!fits(&["prod"], 1001));
    assert!(fits(&["prod", "*"], 2000));
    assert!(!fits(&[], 1));
}

/// Offers to every role hold unreserved resources.
#[test]
fn a_pod_takes_only_offers_to_its_roles() {
    let table: [(&[&str], Option<usize>); 5] =
        [(&["a"], Some(0)), (&["b"], Some(1)), (&["c"], None), (&["c", "b"], Some(1)), (&[], Some(0))];
    for (pools, expected) in table {
        let mut engine = engine(Policy::default(), [agent("n", amounts(1000, 1024))]);
        let pool = |role: &str| Pool { role: role.to_owned(), shares: vec![share("*", amounts(1000, 1024))] };
        engine.set_supply("n", Supply { pools: vec![pool("a"), pool("b")], ..Supply::default() });
        let pod = pod(&mut engine, "p", amounts(1000, 64), |need| {
            need.pools = pools.iter().map(|role| (*role).to_owned()).collect();
        });
        assert_eq!(engine.place(&pod).map(|placement| placement.pool).ok(), expected, "{pools:?}");
    }
}

#[test]
fn host_ports_come_from_the_offer() {
    let mut engine = engine(Policy::default(), [agent("a", amounts(4000, 4096))]);
    let named = |port: u16| HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port };
    let wishes: [(&[u16], usize); 5] = [(&[31_001], 1), (&[31_001], 0), (&[], 2), (&[], 1), (&[80], 0)];
    let pods: Vec<PendingPod> = wishes
        .iter()
        .enumerate()
        .map(|(number, (numbers, any))| {
            pod(&mut engine, &format!("p{number}"), amounts(10, 1), |need| {
                need.ports.named = numbers.iter().map(|number| named(*number)).collect();
                need.ports.any = *any;
            })
        })
        .collect();
    let plan = engine.place_all(&pods);
    assert_eq!(plan.placed.iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), [0, 2]);
    let text = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(refused(&plan, 0), text);
    assert_eq!(refused(&plan, 2), format!("{text} No agent offers host port 80; agents offer ports 31000-31003."));
}

#[test]
fn what_no_agent_has_is_said_clearly() {
    let mut two = engine(Policy::default(), [agent("a", amounts(4000, 4096)), agent("b", amounts(2000, 1024))]);
    let large = pod(&mut two, "p", amounts(64_000, 64), |_| {});
    assert_eq!(
        two.place(&large).expect_err("too large").to_string(),
        "0/2 nodes are available: 2 Insufficient cpu. The pod needs cpu 64, but the largest agent has 4."
    );
    let mut none = engine(Policy::default(), []);
    let small = pod(&mut none, "p", amounts(1, 1), |_| {});
    assert_eq!(none.place(&small).expect_err("no node").to_string(), "no nodes available to schedule pods");
}

#[test]
fn a_blocked_node_says_why() {
    let mut engine = engine(Policy::default(), [agent("a", amounts(4000, 4096))]);
    engine.set_supply("a", Supply { blocked: Some(Refusal::NoOffer), ..Supply::default() });
    let small = pod(&mut engine, "p", amounts(1, 1), |_| {});
    let text = "0/1 nodes are available: 1 node(s) had no resource offer from Mesos.";
    assert_eq!(engine.place(&small).expect_err("blocked").to_string(), text);
}

#[test]
fn the_more_important_pod_goes_first() {
    let mut engine = engine(Policy::default(), [agent("a", amounts(250, 4096))]);
    let first = pod(&mut engine, "first", amounts(250, 64), |_| {});
    let urgent = pod(&mut engine, "urgent", amounts(250, 64), |need| need.priority = 10);
    let plan = engine.place_all(&[first, urgent]);
    assert_eq!(plan.placed.iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), [1]);
}

#[test]
fn what_nodes_offer_and_are_may_change_at_any_time() {
    let mut engine = engine(Policy::default(), [agent("a", amounts(500, 4096))]);
    let pods = replicas(&mut engine, 6, None);
    assert!(engine.place(&pods[0]).is_ok() && engine.place(&pods[1]).is_ok());
    assert!(engine.place(&pods[2]).is_err());
    agent("b", amounts(250, 4096)).tell(&mut engine);
    assert_eq!(engine.place(&pods[2]).expect("a new node").node, "b");
    let cordoned = NodeFacts { unschedulable: true, ..agent("a", amounts(500, 4096)).facts() };
    engine.set_node("a", cordoned);
    engine.remove_pod(&pods[0].id);
    agent("a", amounts(500, 4096)).offer(&mut engine);
    let why = engine.place(&pods[3]).expect_err("one node is cordoned, the other full");
    assert_eq!(why.to_string(), "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.");
    engine.set_node("a", agent("a", amounts(500, 4096)).facts());
    assert_eq!(engine.place(&pods[3]).expect("it is open again").node, "a");
    engine.remove_node("a");
    assert!(engine.place(&pods[4]).is_err());
}

#[test]
fn a_wish_that_cannot_be_understood_is_refused_by_name() {
    let table = [
        ("k8s.mesosphere.io/placement", "tetris", "\"tetris\" is none of pack, spread, fcfs"),
        ("k8s.mesosphere.io/constraints", "[[\"a\",\"NEAR\"]]", "\"NEAR\" is no operator"),
        // In a group of its own it would match any value that ends with b.
        ("k8s.mesosphere.io/constraints", "[[\"a\",\"LIKE\",\"a)|(b\"]]", "unopened group"),
        ("k8s.mesosphere.io/constraints", "hostname:UNIQUE", "not a JSON list of lists of texts"),
    ];
    for (key, value, expected) in table {
        let mut wrong = k8s_openapi::api::core::v1::Pod::default();
        wrong.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        let error = compile(&wrong, km_placement::Context::default()).expect_err("it is wrong").to_string();
        assert!(error.starts_with(&format!("annotation {key}: ")) && error.contains(expected), "{error}");
    }
}

/// As among Kubernetes' default constraints: a node without the label is as good as an empty domain.
#[test]
fn the_default_spread_minds_zones_only_where_there_are_any() {
    let zoned = |name: &str, zone: Option<&str>| {
        let mut one = agent(name, amounts(4000, 4096));
        one.labels = vec![("kubernetes.io/hostname".to_owned(), name.to_owned())];
        one.labels.extend(zone.map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone.to_owned())));
        one
    };
    let system = [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)];
    // Each agent's zone, and where three pods of a replica set go. The stock scheduler's sum is smallest where a label is
    // missing, so its scores send all to such an agent.
    const BOTH: &[Strategy] = &[Strategy::Spread, Strategy::Kubernetes];
    type Row = (&'static [Option<&'static str>], &'static [Strategy], [usize; 3]);
    let table: [Row; 4] = [
        (&[Some("x"), Some("x"), Some("y")], BOTH, [0, 2, 1]),
        (&[None, None, None], BOTH, [0, 1, 2]),
        (&[Some("x"), Some("x"), None], &[Strategy::Spread], [0, 2, 1]),
        (&[Some("x"), Some("x"), None], &[Strategy::Kubernetes], [2, 2, 2]),
    ];
    for (zones, strategies, expected) in table {
        for strategy in strategies.iter().copied() {
            let agents = zones.iter().enumerate().map(|(number, zone)| zoned(&format!("n{number}"), *zone));
            let mut engine = engine(Policy { strategy, ..Policy::default() }, agents);
            let went = [0, 1, 2].map(|number| {
                let context = Context {
                    amounts: amounts(100, 64),
                    roles: vec!["*".into()],
                    owner: Some("set".into()),
                    default_spread: system.map(|(key, skew)| (key.to_owned(), skew)).to_vec(),
                    mates: Mates { of_owner: true, ..Mates::default() },
                    ..Context::default()
                };
                let need = engine.share(compile(&Default::default(), context).expect("it is lawful"));
                let pod = PendingPod { id: format!("default/p{number}"), need, queued: 0 };
                engine.place(&pod).expect("there is room").node
            });
            assert_eq!(went, expected.map(|number| format!("n{number}")), "{strategy:?} {zones:?}");
        }
    }
}
