//! What placement is shown.

use std::collections::BTreeMap;

use km_mesos_proto::v1;
use km_placement::{Amounts, ExecutorNeed, NodeView, Pool, Ports, Refusal, Share, Snapshot};
use km_podtask::{memory_counted, roles, thousandths};

use super::{
    Core,
    agents::{Agent, amounts, offer_role, port_set},
    pods::owner,
};

/// The snapshot, and whose node is whose.
pub(super) struct Built {
    pub snapshot: Snapshot,
    /// The agent of each node.
    pub agents: Vec<String>,
    /// For each node its pools' offers.
    pub pools: Vec<Vec<PoolOffers>>,
}

/// The offers behind a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolOffers {
    pub offers: Vec<v1::OfferId>,
    pub resources: Vec<v1::Resource>,
}

/// What our tasks make of one agent.
#[derive(Default)]
struct Load {
    pods: i64,
    in_use: Amounts,
    owners: BTreeMap<String, u32>,
}

impl Core {
    pub(super) fn build_snapshot(&self) -> Built {
        let mut loads = self.loads();
        let mut built = Built { snapshot: Snapshot::default(), agents: Vec::new(), pools: Vec::new() };
        for agent in self.agents.current() {
            let Some(node) = self.nodes.get(&agent.hostname) else { continue };
            let load = loads.remove(&agent.id).unwrap_or_default();
            let (pools, offers) = self.pools(agent);
            let spec = node.spec.as_ref();
            let max_pods = node.status.as_ref().and_then(|status| status.allocatable.as_ref()).and_then(|list| {
                let quantity = km_kube::quantity::Quantity::try_from(list.get("pods")?).ok()?;
                Some(quantity.value())
            });
            built.snapshot.nodes.push(NodeView {
                name: agent.hostname.clone(),
                labels: node.metadata.labels.clone().unwrap_or_default(),
                taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
                unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
                capacity: agent.capacity.clone(),
                in_use: load.in_use,
                port_universe: Some(agent.ports.clone()),
                pools,
                executor: if agent.executor_runs { None } else { executor_need(agent) },
                blocked: self.blocked(agent),
                pod_count: load.pods,
                max_pods,
                used_ports: Vec::new(),
                owners: load.owners,
            });
            built.agents.push(agent.id.clone());
            built.pools.push(offers);
        }
        built
    }

    fn blocked(&self, agent: &Agent) -> Option<Refusal> {
        if agent.lost.is_some() {
            return Some(Refusal::Unreachable);
        }
        if agent.other_executor {
            return Some(Refusal::OtherExecutor);
        }
        // Without room for the executor nothing was chosen for it.
        if agent.executor.is_none() {
            return Some(Refusal::Insufficient(vec!["cpu".to_owned(), "memory".to_owned()]));
        }
        (!self.node_ready(agent)).then_some(Refusal::NoOffer)
    }

    fn loads(&self) -> BTreeMap<String, Load> {
        let mut loads: BTreeMap<String, Load> = BTreeMap::new();
        for task in self.tasks.live() {
            let load = loads.entry(task.agent_id.clone()).or_default();
            load.pods += 1;
            load.in_use.add(&amounts(&task.resources));
            if let Some(owner) = self.pods.get(&task.pod).and_then(|pod| owner(pod)) {
                *load.owners.entry(owner).or_default() += 1;
            }
        }
        for agent in self.agents.current().filter(|agent| agent.executor_runs) {
            let own = amounts(agent.executor.as_deref().unwrap_or_default());
            loads.entry(agent.id.clone()).or_default().in_use.add(&own);
        }
        loads
    }

    fn pools(&self, agent: &Agent) -> (Vec<Pool>, Vec<PoolOffers>) {
        let mut by_role: BTreeMap<String, PoolOffers> = BTreeMap::new();
        for held in self.pool.of_agent(&agent.id).filter(|held| !held.acquired) {
            let pool = by_role.entry(offer_role(&held.offer)).or_default();
            pool.offers.push(held.offer.id.clone());
            pool.resources.extend(held.offer.resources.iter().cloned());
        }
        by_role.into_iter().map(|(role, offers)| (Pool { role, shares: shares(&offers.resources) }, offers)).unzip()
    }
}

/// The resources by whom they are reserved for.
fn shares(resources: &[v1::Resource]) -> Vec<Share> {
    let mut by_role: BTreeMap<&str, Vec<v1::Resource>> = BTreeMap::new();
    for resource in resources {
        by_role.entry(roles::of_resource(resource)).or_default().push(resource.clone());
    }
    let share = |(role, mine): (&str, Vec<v1::Resource>)| Share {
        role: role.to_owned(),
        free: amounts(&mine),
        ports: Ports::Only(port_set(&mine)),
    };
    by_role.into_iter().map(share).collect()
}

fn executor_need(agent: &Agent) -> Option<ExecutorNeed> {
    let resources = agent.executor.as_ref()?;
    let allocation = resources.first().and_then(|first| first.allocation_info.as_ref());
    let pool_role = allocation.and_then(|allocation| allocation.role.clone());
    let shares = resources.iter().map(|one| {
        let amount = one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value));
        let amounts = match one.name.as_str() {
            "cpus" => Amounts { milli_cpu: amount, ..Amounts::default() },
            _ => Amounts { memory_bytes: memory_counted(amount), ..Amounts::default() },
        };
        (roles::of_resource(one).to_owned(), amounts)
    });
    Some(ExecutorNeed { pool_role: pool_role.unwrap_or_else(|| roles::ANY.to_owned()), shares: shares.collect() })
}
