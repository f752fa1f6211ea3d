//! A node while a plan is made: what is left of it, and whether a pod fits.

use std::collections::BTreeMap;

use crate::{
    Amounts, HostPort,
    affinity::selects,
    pending::PendingPod,
    ports::Ports,
    reasons::Refusal,
    score::Policy,
    snapshot::{ExecutorNeed, NodeView, Pool, Share},
    taints,
};

/// What is left of a node.
pub(crate) struct NodeState<'a> {
    pub view: &'a NodeView,
    pub pools: Vec<Pool>,
    pub executor: Option<&'a ExecutorNeed>,
    pub pod_count: i64,
    pub used_ports: Vec<HostPort>,
    pub owners: BTreeMap<String, u32>,
}

impl<'a> NodeState<'a> {
    pub fn new(view: &'a NodeView) -> Self {
        Self {
            view,
            pools: view.pools.clone(),
            executor: view.executor.as_ref(),
            pod_count: view.pod_count,
            used_ports: view.used_ports.clone(),
            owners: view.owners.clone(),
        }
    }

    /// All that is left, over pools and shares.
    pub fn free(&self) -> Amounts {
        let mut sum = Amounts::default();
        for share in self.pools.iter().flat_map(|pool| &pool.shares) {
            sum.add(&share.free);
        }
        sum
    }

    /// What doesn't change while a plan is made: name, cordon, taints, selector and affinity.
    pub fn accepts(&self, pod: &PendingPod, policy: &Policy) -> Result<(), Refusal> {
        let Some(spec) = &pod.pod.spec else { return Ok(()) };
        if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
            return Err(Refusal::Gated);
        }
        if self.view.unschedulable && !taints::tolerates_cordon(spec) {
            return Err(Refusal::Unschedulable);
        }
        if spec.node_name.as_ref().is_some_and(|name| !name.is_empty() && *name != self.view.name) {
            return Err(Refusal::NodeName);
        }
        if !taints::tolerated(spec, &self.view.taints, policy.comparison_tolerations) {
            return Err(Refusal::Taint);
        }
        if !selects(spec, &self.view.name, &self.view.labels) {
            return Err(Refusal::NodeAffinity);
        }
        Ok(())
    }

    /// Whether there is room now, and in which pool.
    pub fn room(&self, pod: &PendingPod) -> Result<usize, Refusal> {
        if pod.ports.named.iter().any(|port| self.used_ports.iter().any(|used| used.clashes(port))) {
            return Err(Refusal::Ports);
        }
        let impossible =
            |port: &HostPort| self.view.port_universe.as_ref().is_some_and(|universe| !universe.contains(port.port));
        if pod.ports.named.iter().any(impossible) {
            return Err(Refusal::Ports);
        }
        if let Some(blocked) = &self.view.blocked {
            return Err(blocked.clone());
        }
        if self.view.max_pods.is_some_and(|limit| self.pod_count >= limit) {
            return Err(Refusal::TooManyPods);
        }
        let mut first_refusal = None;
        for (index, pool) in self.pools.iter().enumerate() {
            match self.pool_fits(pool, pod) {
                Ok(()) => return Ok(index),
                Err(refusal) => {
                    first_refusal.get_or_insert(refusal);
                }
            }
        }
        Err(first_refusal.unwrap_or_else(|| self.without_offer(pod)))
    }

    /// The refusal of an agent that offers nothing now: short of resources when our own pods leave too little of it.
    fn without_offer(&self, pod: &PendingPod) -> Refusal {
        let (capacity, in_use) = (&self.view.capacity, &self.view.in_use);
        let cpu = pod.amounts.milli_cpu > capacity.milli_cpu - in_use.milli_cpu;
        let memory = pod.amounts.memory_bytes > capacity.memory_bytes - in_use.memory_bytes;
        let short = [("cpu", cpu), ("memory", memory)].into_iter().filter(|(_, short)| *short);
        let names: Vec<String> = short.map(|(name, _)| name.to_owned()).collect();
        if names.is_empty() { Refusal::NoOffer } else { Refusal::Insufficient(names) }
    }

    fn pool_fits(&self, pool: &Pool, pod: &PendingPod) -> Result<(), Refusal> {
        if !ports_fit(pool, pod) {
            return Err(Refusal::Ports);
        }
        let lacking = self.lacking_in(pool, pod);
        if lacking.is_empty() {
            return Ok(());
        }
        Err(Refusal::Insufficient(lacking.into_iter().map(|(name, _)| name).collect()))
    }

    /// What the pod (and the executor, if it must come along) lacks in a pool.
    pub fn lacking_in(&self, pool: &Pool, pod: &PendingPod) -> Vec<(String, i64)> {
        let mut shares = pool.shares.clone();
        if let Some(executor) = self.executor {
            let missing = take_executor(&mut shares, &pool.role, executor);
            if !missing.is_empty() {
                return missing;
            }
        }
        take(&mut shares, &pod.amounts, &pod.roles)
    }

    /// Puts the pod here. To be called after [`NodeState::room`] named the pool. Says whether it brings the executor.
    pub fn put(&mut self, pod: &PendingPod, pool: usize) -> bool {
        let with_executor = self.executor.is_some();
        if let Some(pool) = self.pools.get_mut(pool) {
            if let Some(executor) = self.executor.take() {
                take_executor(&mut pool.shares, &pool.role, executor);
            }
            take(&mut pool.shares, &pod.amounts, &pod.roles);
            take_ports(&mut pool.shares, pod);
        }
        self.pod_count += 1;
        self.used_ports.extend(pod.ports.named.iter().cloned());
        if let Some(owner) = &pod.owner {
            *self.owners.entry(owner.clone()).or_default() += 1;
        }
        with_executor
    }
}

fn take_executor(shares: &mut [Share], pool_role: &str, executor: &ExecutorNeed) -> Vec<(String, i64)> {
    if pool_role != executor.pool_role {
        return vec![("cpu".to_owned(), executor.shares.iter().map(|(_, amounts)| amounts.milli_cpu).sum())];
    }
    executor.shares.iter().flat_map(|(role, amounts)| take(shares, amounts, std::slice::from_ref(role))).collect()
}

/// Takes amounts out of the shares, roles in order. Says what is missing; then nothing is to be relied on.
fn take(shares: &mut [Share], amounts: &Amounts, roles: &[String]) -> Vec<(String, i64)> {
    let mut missing = Vec::new();
    let mut one = |name: &str, want: i64, free: &dyn Fn(&mut Amounts) -> Option<&mut i64>| {
        let mut open = want;
        for role in roles {
            for share in shares.iter_mut().filter(|share| share.role == *role) {
                if let Some(left) = free(&mut share.free) {
                    let part = open.min(*left).max(0);
                    *left -= part;
                    open -= part;
                }
            }
        }
        if open > 0 {
            missing.push((name.to_owned(), open));
        }
    };
    one("cpu", amounts.milli_cpu, &|free| Some(&mut free.milli_cpu));
    one("memory", amounts.memory_bytes, &|free| Some(&mut free.memory_bytes));
    for (name, want) in &amounts.other {
        one(name, *want, &|free| free.other.get_mut(name));
    }
    missing
}

/// Whether the pool has the pod's ports. A port that two protocols name is needed once.
fn ports_fit(pool: &Pool, pod: &PendingPod) -> bool {
    let usable = || pool.shares.iter().filter(|share| pod.roles.contains(&share.role));
    let mut count = 0;
    for share in usable() {
        match &share.ports {
            Ports::Any => return true,
            Ports::Only(set) => count += set.len(),
        }
    }
    let mut named: Vec<u16> = pod.ports.named.iter().map(|port| port.port).collect();
    named.sort_unstable();
    named.dedup();
    let offered = |port: &u16| usable().any(|share| matches!(&share.ports, Ports::Only(set) if set.contains(*port)));
    named.iter().all(offered) && named.len() + pod.ports.any <= count
}

fn take_ports(shares: &mut [Share], pod: &PendingPod) {
    let mut open = pod.ports.any;
    for role in &pod.roles {
        for share in shares.iter_mut().filter(|share| share.role == *role) {
            if let Ports::Only(set) = &mut share.ports {
                for port in &pod.ports.named {
                    set.take(port.port);
                }
            }
        }
    }
    for role in &pod.roles {
        for share in shares.iter_mut().filter(|share| share.role == *role) {
            if let Ports::Only(set) = &mut share.ports {
                open -= set.take_lowest(open);
            }
        }
    }
}
