//! Agents as Mesos offers them, told to the engine.

#![allow(dead_code, reason = "each test file uses its own part")]

use km_placement::{
    Amounts, AssignedPod, Context, Engine, ExecutorNeed, Need, NodeFacts, PendingPod, Policy, Pool, PortSet, Ports,
    Share, Supply, compile,
};

pub const MIB: i64 = 1 << 20;

pub fn amounts(milli_cpu: i64, mebibytes: i64) -> Amounts {
    Amounts { milli_cpu, memory_bytes: mebibytes * MIB, ..Amounts::default() }
}

pub fn ports() -> PortSet {
    PortSet::new([(31_000, 31_003)])
}

pub fn share(role: &str, free: Amounts) -> Share {
    Share { role: role.into(), free, ports: Ports::Only(ports()) }
}

/// An agent all of which is offered.
#[derive(Clone)]
pub struct Agent {
    pub name: String,
    pub capacity: Amounts,
    pub shares: Vec<Share>,
    pub executor: Option<ExecutorNeed>,
    pub arrival: u64,
    pub labels: Vec<(String, String)>,
}

/// One on which an executor runs.
pub fn agent(name: &str, free: Amounts) -> Agent {
    let shares = vec![share("*", free.clone())];
    Agent { name: name.into(), capacity: free, shares, executor: None, arrival: 0, labels: Vec::new() }
}

/// One on which none runs yet.
pub fn fresh(name: &str, free: Amounts) -> Agent {
    let need = ExecutorNeed { pool_role: "*".into(), shares: vec![("*".into(), amounts(250, 128))] };
    Agent { executor: Some(need), ..agent(name, free) }
}

impl Agent {
    pub fn facts(&self) -> NodeFacts {
        NodeFacts {
            capacity: self.capacity.clone(),
            port_universe: Some(ports()),
            labels: self.labels.iter().cloned().collect(),
            ..NodeFacts::default()
        }
    }

    pub fn offer(&self, engine: &mut Engine) {
        let pools = vec![Pool { role: "*".into(), shares: self.shares.clone() }];
        let supply = Supply {
            pools,
            executors: self.executor.clone().map(|executor| vec![executor]),
            arrival: self.arrival,
            ..Supply::default()
        };
        engine.set_supply(&self.name, supply);
    }

    pub fn tell(&self, engine: &mut Engine) {
        engine.set_node(&self.name, self.facts());
        self.offer(engine);
    }
}

pub fn engine(policy: Policy, agents: impl IntoIterator<Item = Agent>) -> Engine {
    let mut engine = Engine::new(policy);
    agents.into_iter().for_each(|agent| agent.tell(&mut engine));
    engine
}

/// A waiting pod that takes this, and what `change` makes of it.
pub fn pod(engine: &mut Engine, name: &str, amounts: Amounts, change: impl FnOnce(&mut Need)) -> PendingPod {
    let context = Context { amounts, roles: vec!["*".into()], ..Context::default() };
    let mut need = compile(&Default::default(), context).expect("nothing is wrong with it");
    change(&mut need);
    PendingPod { id: format!("default/{name}"), need: engine.share(need), queued: 0 }
}

pub fn replicas(engine: &mut Engine, count: usize, owner: Option<&str>) -> Vec<PendingPod> {
    let make = |number: usize| {
        pod(engine, &format!("p{number}"), amounts(250, 64), |need| need.owner = owner.map(str::to_owned))
    };
    (0..count).map(make).collect()
}

/// A pod runs on a node without our having placed it.
pub fn assign(engine: &mut Engine, pod: &PendingPod, node: &str) {
    engine.set_pod(AssignedPod {
        id: pod.id.clone(),
        need: pod.need.clone(),
        node: node.to_owned(),
        terminating: false,
        started: 0,
        preempted: false,
    });
}
