//! The engine against a slow oracle that judges every step from the whole list of pods, by the rules as they are
//! written down. Nodes, pods and what happens are random.

use std::collections::BTreeMap;

use km_placement::{
    AssignedPod, Context, Engine, HostPort, NodeFacts, PendingPod, Placement, Policy, Pool, Ports, Share, Strategy,
    Supply, compile,
};
use proptest::{
    prelude::{ProptestConfig, any, prop_assert_eq, prop_oneof, proptest},
    strategy::Strategy as _,
};
use serde_json::json;

const KEYS: [&str; 2] = ["zone", "kubernetes.io/hostname"];

#[derive(Clone, Debug)]
struct Agent {
    zone: Option<u8>,
    cpu: i64,
    tainted: bool,
}

/// A rule about pods with a label `app`, over the domains of a key.
#[derive(Clone, Copy, Debug)]
struct About {
    key: usize,
    app: u8,
}

#[derive(Clone, Debug)]
struct Wishes {
    app: u8,
    cpu: i64,
    port: Option<u16>,
    zone: Option<u8>,
    tolerates: bool,
    near: Option<About>,
    apart: Option<About>,
    /// With maxSkew and minDomains.
    spread: Option<(About, i64, i64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Place(Wishes),
    /// Place and take it back.
    Try(Wishes),
    Remove(usize),
    /// The pod is being deleted.
    Terminate(usize),
    /// The node's labels and taint change.
    Change(usize, Option<u8>, bool),
    /// The node goes, with its pods, and comes back.
    Restart(usize),
}

/// A pod that runs.
#[derive(Clone, Debug)]
struct Running {
    wishes: Wishes,
    node: usize,
    terminating: bool,
}

/// What the oracle knows.
struct World {
    agents: Vec<Agent>,
    running: BTreeMap<String, Running>,
}

impl World {
    fn domain(&self, node: usize, key: usize) -> Option<String> {
        match key {
            0 => self.agents[node].zone.map(|zone| zone.to_string()),
            _ => Some(name(node)),
        }
    }

    fn count(&self, about: About, domain: &Option<String>, living: bool) -> i64 {
        let matches = |pod: &&Running| {
            pod.wishes.app == about.app
                && !(living && pod.terminating)
                && domain.is_some()
                && self.domain(pod.node, about.key) == *domain
        };
        i64::try_from(self.running.values().filter(matches).count()).expect("few")
    }

    fn fits(&self, node: usize, pod: &Wishes) -> bool {
        let agent = &self.agents[node];
        let here = || self.running.values().filter(|running| running.node == node);
        let used: i64 = here().map(|running| running.wishes.cpu).sum();
        let port_taken = here().any(|running| pod.port.is_some() && running.wishes.port == pod.port);
        self.selected(node, pod)
            && (!agent.tainted || pod.tolerates)
            && used + pod.cpu <= agent.cpu
            && !port_taken
            && self.spread_fits(node, pod)
            && self.near_fits(node, pod)
            && self.apart_fits(node, pod)
    }

    fn selected(&self, node: usize, pod: &Wishes) -> bool {
        pod.zone.is_none() || self.agents[node].zone == pod.zone
    }

    fn spread_fits(&self, node: usize, pod: &Wishes) -> bool {
        let Some((about, max_skew, min_domains)) = pod.spread else { return true };
        let Some(domain) = self.domain(node, about.key) else { return false };
        let counted: Vec<usize> = (0..self.agents.len())
            .filter(|node| self.domain(*node, about.key).is_some() && self.selected(*node, pod))
            .collect();
        let mut domains: BTreeMap<String, i64> = BTreeMap::new();
        for node in &counted {
            domains.insert(self.domain(*node, about.key).expect("it has one"), 0);
        }
        for running in self.running.values() {
            if running.wishes.app == about.app && !running.terminating && counted.contains(&running.node) {
                *domains.get_mut(&self.domain(running.node, about.key).expect("it has one")).expect("counted") += 1;
            }
        }
        let few = i64::try_from(domains.len()).expect("few") < min_domains;
        let least = if few { 0 } else { domains.values().copied().min().unwrap_or(0) };
        let own = i64::from(pod.app == about.app);
        domains.get(&domain).copied().unwrap_or(0) + own - least <= max_skew
    }

    fn near_fits(&self, node: usize, pod: &Wishes) -> bool {
        let Some(about) = pod.near else { return true };
        let domain = self.domain(node, about.key);
        let anywhere = self
            .running
            .values()
            .any(|running| running.wishes.app == about.app && self.domain(running.node, about.key).is_some());
        domain.is_some() && (self.count(about, &domain, false) > 0 || (!anywhere && pod.app == about.app))
    }

    fn apart_fits(&self, node: usize, pod: &Wishes) -> bool {
        let own = pod.apart.is_none_or(|about| self.count(about, &self.domain(node, about.key), false) == 0);
        let repelled = self.running.values().any(|running| {
            running.wishes.apart.is_some_and(|about| {
                let there = self.domain(running.node, about.key);
                about.app == pod.app && there.is_some() && there == self.domain(node, about.key)
            })
        });
        own && !repelled
    }
}

fn name(node: usize) -> String {
    format!("n{node}")
}

fn term(about: About) -> serde_json::Value {
    json!([{ "topologyKey": KEYS[about.key], "labelSelector": { "matchLabels": { "app": about.app.to_string() } } }])
}

fn pending(engine: &mut Engine, id: &str, wishes: &Wishes) -> PendingPod {
    let selector = wishes.zone.map(|zone| json!({ "zone": zone.to_string() }));
    let tolerations = if wishes.tolerates { json!([{ "operator": "Exists" }]) } else { json!([]) };
    let spread = wishes.spread.map(|(about, max_skew, min_domains)| {
        json!([{
            "topologyKey": KEYS[about.key], "maxSkew": max_skew, "minDomains": min_domains,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": about.app.to_string() } },
        }])
    });
    let pod = json!({
        "metadata": { "name": id, "labels": { "app": wishes.app.to_string() } },
        "spec": {
            "containers": [],
            "nodeSelector": selector,
            "tolerations": tolerations,
            "topologySpreadConstraints": spread,
            "affinity": {
                "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": wishes.near.map(term) },
                "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": wishes.apart.map(term) },
            },
        },
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    let mut context = Context { roles: vec!["*".into()], ..Context::default() };
    context.amounts.milli_cpu = wishes.cpu;
    let mut need = compile(&pod, context).expect("nothing is wrong with it");
    let port = |port: u16| HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port };
    need.ports.named = wishes.port.map(port).into_iter().collect();
    PendingPod { id: id.to_owned(), need: engine.share(need), queued: 0 }
}

fn facts(node: usize, agent: &Agent) -> NodeFacts {
    let mut labels = BTreeMap::from([(KEYS[1].to_owned(), name(node))]);
    labels.extend(agent.zone.map(|zone| ("zone".to_owned(), zone.to_string())));
    let taint = serde_json::from_value(json!({ "key": "k", "effect": "NoSchedule" })).expect("a taint");
    let mut facts = NodeFacts { labels, ..NodeFacts::default() };
    facts.taints = if agent.tainted { vec![taint] } else { Vec::new() };
    facts.capacity.milli_cpu = agent.cpu;
    facts
}

/// The node offers what its pods leave.
fn offer(engine: &mut Engine, node: usize, world: &World) {
    let used: i64 = world.running.values().filter(|pod| pod.node == node).map(|pod| pod.wishes.cpu).sum();
    let mut share = Share { role: "*".into(), ports: Ports::Any, ..Share::default() };
    share.free.milli_cpu = world.agents[node].cpu - used;
    let pools = vec![Pool { role: "*".into(), shares: vec![share] }];
    engine.set_supply(&name(node), Supply { pools, ..Supply::default() });
}

fn assigned(pod: &PendingPod, running: &Running) -> AssignedPod {
    AssignedPod {
        id: pod.id.clone(),
        need: pod.need.clone(),
        node: name(running.node),
        terminating: running.terminating,
        started: 0,
        preempted: false,
    }
}

fn check_place(engine: &mut Engine, world: &World, pod: &PendingPod, wishes: &Wishes) -> Option<Placement> {
    let expected: Vec<bool> = (0..world.agents.len()).map(|node| world.fits(node, wishes)).collect();
    let explained = engine.explain(pod);
    for (node, expected) in expected.iter().enumerate() {
        let found = explained.iter().find(|found| found.node == name(node)).expect("it was told");
        assert_eq!(found.refusal.is_none(), *expected, "{}: {:?} for {wishes:?}", found.node, found.refusal);
    }
    let placement = engine.place(pod).ok();
    match &placement {
        Some(placement) => {
            let node = (0..world.agents.len()).find(|node| name(*node) == placement.node).expect("a node");
            assert!(expected[node], "{} was chosen for {wishes:?}", placement.node);
        }
        None => assert!(expected.iter().all(|fits| !fits), "nothing was found for {wishes:?}"),
    }
    placement
}

/// Where all pods went, for comparison of two runs.
fn play(agents: &[Agent], steps: &[Step], strategy: Strategy) -> Vec<Option<String>> {
    let mut engine = Engine::new(Policy { strategy, ..Policy::default() });
    let mut world = World { agents: agents.to_vec(), running: BTreeMap::new() };
    for (node, agent) in agents.iter().enumerate() {
        engine.set_node(&name(node), facts(node, agent));
        offer(&mut engine, node, &world);
    }
    let mut went = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let id = format!("default/p{number}");
        let chosen = |world: &World, at: usize| world.running.keys().nth(at % world.running.len().max(1)).cloned();
        match step {
            Step::Place(wishes) => {
                let pod = pending(&mut engine, &id, wishes);
                let placement = check_place(&mut engine, &world, &pod, wishes);
                if let Some(placement) = &placement {
                    let node = (0..agents.len()).find(|node| name(*node) == placement.node).expect("a node");
                    world.running.insert(id, Running { wishes: wishes.clone(), node, terminating: false });
                }
                went.push(placement.map(|placement| placement.node));
            }
            Step::Try(wishes) => {
                let pod = pending(&mut engine, &id, wishes);
                let before = engine.explain(&pod);
                if let Some(placement) = check_place(&mut engine, &world, &pod, wishes) {
                    engine.undo(placement);
                }
                assert_eq!(engine.explain(&pod), before, "undoing leaves something behind");
            }
            Step::Remove(at) => {
                let Some(id) = chosen(&world, *at) else { continue };
                let node = world.running.remove(&id).expect("it runs").node;
                engine.remove_pod(&id);
                offer(&mut engine, node, &world);
            }
            Step::Terminate(at) => {
                let Some(id) = chosen(&world, *at) else { continue };
                let running = world.running.get_mut(&id).expect("it runs");
                running.terminating = true;
                let pod = pending(&mut engine, &id, &running.wishes.clone());
                engine.set_pod(assigned(&pod, running));
            }
            Step::Change(at, zone, tainted) => {
                let node = at % agents.len();
                world.agents[node].zone = *zone;
                world.agents[node].tainted = *tainted;
                engine.set_node(&name(node), facts(node, &world.agents[node]));
            }
            Step::Restart(at) => {
                let node = at % agents.len();
                world.running.retain(|_, running| running.node != node);
                engine.remove_node(&name(node));
                engine.set_node(&name(node), facts(node, &world.agents[node]));
                offer(&mut engine, node, &world);
            }
        }
    }
    went
}

fn about() -> impl proptest::strategy::Strategy<Value = About> {
    (0..2usize, 0..3u8).prop_map(|(key, app)| About { key, app })
}

fn agent() -> impl proptest::strategy::Strategy<Value = Agent> {
    (proptest::option::weighted(0.8, 0..3u8), 0..6i64, proptest::bool::weighted(0.2))
        .prop_map(|(zone, cpu, tainted)| Agent { zone, cpu: cpu * 1000, tainted })
}

fn wishes() -> impl proptest::strategy::Strategy<Value = Wishes> {
    let node = (proptest::option::weighted(0.2, 0..3u8), any::<bool>(), proptest::option::weighted(0.2, 80..82u16));
    let rules = (
        proptest::option::weighted(0.25, about()),
        proptest::option::weighted(0.25, about()),
        proptest::option::weighted(0.35, (about(), 1..3i64, 1..4i64)),
    );
    (0..3u8, 1..4i64, node, rules).prop_map(|(app, cpu, (zone, tolerates, port), (near, apart, spread))| Wishes {
        app,
        cpu: cpu * 500,
        port,
        zone,
        tolerates,
        near,
        apart,
        spread,
    })
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    prop_oneof![
        8 => wishes().prop_map(Step::Place),
        2 => wishes().prop_map(Step::Try),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Terminate),
        1 => (any::<usize>(), proptest::option::weighted(0.8, 0..3u8), any::<bool>())
            .prop_map(|(at, zone, tainted)| Step::Change(at, zone, tainted)),
        1 => any::<usize>().prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every decision is one that the oracle allows, every refusal one that it shares, taking back leaves nothing
    /// behind, and the same happens again in a second run.
    #[test]
    fn the_oracle_agrees(
        agents in proptest::collection::vec(agent(), 1..16),
        steps in proptest::collection::vec(step(), 1..50),
        strategy in proptest::sample::select(Strategy::ALL.to_vec()),
    ) {
        let first = play(&agents, &steps, strategy);
        prop_assert_eq!(first, play(&agents, &steps, strategy));
    }
}
