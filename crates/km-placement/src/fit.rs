//! A node with what is left of it, and whether a pod fits.

use crate::{
    Amounts, HostPort,
    need::Need,
    node::{ExecutorNeed, NodeFacts, Pool, Share, Supply},
    ports::Ports,
    reasons::Refusal,
};

/// A node, what it offers, and who is there.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    pub facts: NodeFacts,
    pub supply: Supply,
    /// Grows with every new supply: what was taken from an older one is not given back to a newer.
    pub version: u64,
    /// Numbers of the pods on it.
    pub pods: Vec<u32>,
    /// Their host ports.
    pub ports: Vec<HostPort>,
    /// The sum of their amounts.
    pub requested: Amounts,
    /// The same as Kubernetes scores it (see [`Need::scored`]).
    pub scored: [i64; 2],
}

/// Pods that are thought away from a node, or added to it.
#[derive(Default)]
pub(crate) struct Change<'a> {
    pub gone: Vec<&'a Need>,
    pub come: Vec<&'a Need>,
}

impl Change<'_> {
    fn is_none(&self) -> bool {
        self.gone.is_empty() && self.come.is_empty()
    }

    /// What they leave of one resource to a pod that may use these roles.
    fn difference(&self, roles: &[String], amount: &dyn Fn(&Amounts) -> i64) -> i64 {
        let sum = |pods: &[&Need]| -> i64 {
            let concerned = pods.iter().filter(|pod| pod.roles.first().is_some_and(|role| roles.contains(role)));
            concerned.map(|pod| amount(&pod.amounts)).sum()
        };
        sum(&self.gone) - sum(&self.come)
    }
}

impl Node {
    /// What doesn't depend on other pods: gates, cordon, name, taints, selector and affinity, constraints on the node
    /// alone.
    pub fn accepts(&self, need: &Need, comparisons: bool) -> Result<(), Refusal> {
        if need.gated {
            return Err(Refusal::Gated);
        }
        if self.facts.unschedulable && !need.tolerates_cordon() {
            return Err(Refusal::Unschedulable);
        }
        if need.node_name.as_ref().is_some_and(|name| *name != self.name) {
            return Err(Refusal::NodeName);
        }
        if !need.tolerates_all(&self.facts.taints, comparisons) {
            return Err(Refusal::Taint);
        }
        if !need.selects(&self.name, &self.facts.labels) {
            return Err(Refusal::NodeAffinity);
        }
        for constraint in need.constraints.iter().filter(|constraint| !constraint.looks_around()) {
            let value = constraint.field.of(&self.name, &self.facts);
            if !constraint.accepts(value.as_ref(), &crate::Placed::default(), 0) {
                return Err(Refusal::Constraint(constraint.to_string()));
            }
        }
        Ok(())
    }

    /// Whether there is room now, and in which pool.
    pub fn room(&self, need: &Need, change: &Change<'_>) -> Result<usize, Refusal> {
        self.named_ports_free(need, change)?;
        if let Some(blocked) = &self.supply.blocked {
            return Err(blocked.clone());
        }
        if let Some(limit) = self.facts.max_pods {
            let pods = self.pods.len() + change.come.len() - change.gone.len();
            if i64::try_from(pods).is_ok_and(|pods| pods >= limit) {
                return Err(Refusal::TooManyPods);
            }
        }
        let mut first_refusal = None;
        for (index, pool) in self.pools_for(need) {
            match self.pool_fits(pool, need, change) {
                Ok(()) => return Ok(index),
                Err(refusal) => {
                    first_refusal.get_or_insert(refusal);
                }
            }
        }
        if let (None, false) = (&first_refusal, change.gone.is_empty()) {
            // Nothing is offered, but those who go leave something.
            return self.pool_fits(&Pool::default(), need, change).map(|()| 0);
        }
        Err(first_refusal.unwrap_or_else(|| self.without_offer(need)))
    }

    /// The pools that a pod may be launched from, with their numbers.
    pub fn pools_for(&self, need: &Need) -> impl Iterator<Item = (usize, &Pool)> {
        self.supply.pools.iter().enumerate().filter(|(_, pool)| need.may_use(pool))
    }

    fn named_ports_free(&self, need: &Need, change: &Change<'_>) -> Result<(), Refusal> {
        if need.ports.named.is_empty() {
            return Ok(());
        }
        let leaves = |port: &HostPort| change.gone.iter().any(|pod| pod.ports.named.contains(port));
        let staying = self.ports.iter().filter(|port| !leaves(port));
        let mut used = staying.chain(change.come.iter().flat_map(|pod| &pod.ports.named));
        let universe = self.facts.port_universe.as_ref();
        let impossible = |port: &HostPort| universe.is_some_and(|universe| !universe.contains(port.port));
        if need.ports.named.iter().any(impossible)
            || used.any(|used| need.ports.named.iter().any(|port| used.clashes(port)))
        {
            return Err(Refusal::Ports);
        }
        Ok(())
    }

    /// The refusal of an agent that offers nothing now: short of resources when our own pods leave too little of it.
    fn without_offer(&self, need: &Need) -> Refusal {
        let capacity = &self.facts.capacity;
        let short = |of: &dyn Fn(&Amounts) -> i64| {
            of(&need.amounts) > of(capacity) - of(&self.requested) - of(&self.supply.executor_use)
        };
        let mut names = Vec::new();
        if short(&|amounts| amounts.milli_cpu) {
            names.push("cpu".to_owned());
        }
        if short(&|amounts| amounts.memory_bytes) {
            names.push("memory".to_owned());
        }
        let other = |name: &String| short(&|amounts| amounts.other.get(name).copied().unwrap_or(0));
        names.extend(need.amounts.other.keys().filter(|name| other(name)).cloned());
        if names.is_empty() { Refusal::NoOffer } else { Refusal::Insufficient(names) }
    }

    /// Resources of which the pod asks more than the whole node has.
    pub fn too_small_for(&self, need: &Need) -> bool {
        let capacity = &self.facts.capacity;
        let other = |(name, want): (&String, &i64)| *want > capacity.other.get(name).copied().unwrap_or(0);
        need.amounts.milli_cpu > capacity.milli_cpu
            || need.amounts.memory_bytes > capacity.memory_bytes
            || need.amounts.other.iter().any(other)
    }

    fn pool_fits(&self, pool: &Pool, need: &Need, change: &Change<'_>) -> Result<(), Refusal> {
        if !ports_fit(pool, need, change) {
            return Err(Refusal::Ports);
        }
        let mut fits = true;
        self.each_lacking(pool, need, change, &mut |_, _| fits = false);
        if fits {
            return Ok(());
        }
        let mut names = Vec::new();
        self.each_lacking(pool, need, change, &mut |name, _| names.push(name.to_owned()));
        Err(Refusal::Insufficient(names))
    }

    /// Tells what the pod (and the executor, if it must come along) lacks in a pool.
    pub fn each_lacking(&self, pool: &Pool, need: &Need, change: &Change<'_>, tell: &mut dyn FnMut(&str, i64)) {
        let choices = self.supply.executors.as_deref();
        let executor = choices.and_then(|choices| choices.iter().find(|executor| executor.pool_role == pool.role));
        match (choices, executor) {
            (Some(choices), None) => {
                let least = choices.iter().map(ExecutorNeed::milli_cpu).min();
                return tell("cpu", least.unwrap_or(1));
            }
            (_, Some(executor)) if !executor_fits(pool, executor, tell) => return,
            _ => {}
        }
        let mut one = |name: &str, want: i64, amount: &dyn Fn(&Amounts) -> i64| {
            let shares = pool.shares.iter().filter(|share| need.roles.contains(&share.role));
            let free: i64 = shares.map(|share| amount(&share.free).max(0)).sum();
            let parts = executor.into_iter().flat_map(|executor| &executor.shares);
            let own: i64 = parts.filter(|(role, _)| need.roles.contains(role)).map(|(_, part)| amount(part)).sum();
            let moved = if change.is_none() { 0 } else { change.difference(&need.roles, amount) };
            let missing = want - (free - own + moved).max(0);
            if missing > 0 {
                tell(name, missing);
            }
        };
        one("cpu", need.amounts.milli_cpu, &|amounts| amounts.milli_cpu);
        one("memory", need.amounts.memory_bytes, &|amounts| amounts.memory_bytes);
        for (name, want) in &need.amounts.other {
            one(name, *want, &|amounts| amounts.other.get(name).copied().unwrap_or(0));
        }
    }
}

/// Whether the executor's part is in the pool; tells what isn't.
fn executor_fits(pool: &Pool, executor: &ExecutorNeed, tell: &mut dyn FnMut(&str, i64)) -> bool {
    let mut fits = true;
    let mut roles: Vec<&str> = executor.shares.iter().map(|(role, _)| role.as_str()).collect();
    roles.sort_unstable();
    roles.dedup();
    for role in roles {
        let mut one = |name: &str, amount: &dyn Fn(&Amounts) -> i64| {
            let shares = pool.shares.iter().filter(|share| share.role == role);
            let free: i64 = shares.map(|share| amount(&share.free).max(0)).sum();
            let parts = executor.shares.iter().filter(|(of, _)| of == role);
            let want: i64 = parts.map(|(_, part)| amount(part)).sum();
            if want > free {
                fits = false;
                tell(name, want - free);
            }
        };
        one("cpu", &|amounts| amounts.milli_cpu);
        one("memory", &|amounts| amounts.memory_bytes);
    }
    fits
}

/// Whether the pool has the pod's ports. A port that two protocols name is needed once.
fn ports_fit(pool: &Pool, need: &Need, change: &Change<'_>) -> bool {
    if need.ports.named.is_empty() && need.ports.any == 0 {
        return true;
    }
    let usable = || pool.shares.iter().filter(|share| need.roles.contains(&share.role));
    let ports_of = |pods: &[&Need]| -> usize { pods.iter().map(|pod| pod.ports.named.len() + pod.ports.any).sum() };
    let mut count = ports_of(&change.gone);
    for share in usable() {
        match &share.ports {
            Ports::Any => return true,
            Ports::Only(set) => count += set.len(),
        }
    }
    let mut named: Vec<u16> = need.ports.named.iter().map(|port| port.port).collect();
    named.sort_unstable();
    named.dedup();
    let offered = |port: u16| usable().any(|share| matches!(&share.ports, Ports::Only(set) if set.contains(port)));
    let freed = |port: u16| change.gone.iter().any(|pod| pod.ports.named.iter().any(|named| named.port == port));
    named.iter().all(|port| offered(*port) || freed(*port))
        && named.len() + need.ports.any + ports_of(&change.come) <= count
}

/// What a pod took of a node's supply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Taken {
    version: u64,
    pool: usize,
    /// Amounts and ports by share.
    parts: Vec<(usize, Amounts)>,
    ports: Vec<(usize, u16)>,
    /// The executors of which one came along.
    pub executors: Option<Vec<ExecutorNeed>>,
}

impl Node {
    /// Takes the pod's part out of a pool that has room for it.
    pub fn take(&mut self, need: &Need, pool: usize) -> Taken {
        let mut taken = Taken { version: self.version, pool, ..Taken::default() };
        let Some(pool) = self.supply.pools.get_mut(pool) else { return taken };
        taken.executors = self.supply.executors.take();
        let own = taken.executors.iter().flatten().find(|executor| executor.pool_role == pool.role).cloned();
        for (role, amounts) in own.iter().flat_map(|executor| &executor.shares) {
            take_amounts(&mut pool.shares, amounts, std::slice::from_ref(role), &mut taken);
        }
        take_amounts(&mut pool.shares, &need.amounts, &need.roles, &mut taken);
        take_ports(&mut pool.shares, need, &mut taken);
        taken
    }

    /// Undoes [`Node::take`], unless the supply is another one by now.
    pub fn give_back(&mut self, taken: Taken) {
        if taken.version != self.version {
            return;
        }
        let Some(pool) = self.supply.pools.get_mut(taken.pool) else { return };
        for (share, amounts) in taken.parts {
            pool.shares[share].free.add(&amounts);
        }
        for (share, port) in taken.ports {
            if let Ports::Only(set) = &mut pool.shares[share].ports {
                set.put(port);
            }
        }
        if taken.executors.is_some() {
            self.supply.executors = taken.executors;
        }
    }
}

fn take_amounts(shares: &mut [Share], amounts: &Amounts, roles: &[String], taken: &mut Taken) {
    let mut open = amounts.clone();
    for role in roles {
        for (index, share) in shares.iter_mut().enumerate().filter(|(_, share)| share.role == *role) {
            let mut part = Amounts::default();
            let one = |want: &mut i64, left: &mut i64, part: &mut i64| {
                *part = (*want).min(*left).max(0);
                *want -= *part;
                *left -= *part;
            };
            one(&mut open.milli_cpu, &mut share.free.milli_cpu, &mut part.milli_cpu);
            one(&mut open.memory_bytes, &mut share.free.memory_bytes, &mut part.memory_bytes);
            for (name, want) in open.other.iter_mut().filter(|(_, want)| **want > 0) {
                if let Some(left) = share.free.other.get_mut(name) {
                    one(want, left, part.other.entry(name.clone()).or_default());
                }
            }
            taken.parts.push((index, part));
        }
    }
}

fn take_ports(shares: &mut [Share], need: &Need, taken: &mut Taken) {
    if need.ports.named.is_empty() && need.ports.any == 0 {
        return;
    }
    let mut open = need.ports.any;
    for role in &need.roles {
        for (index, share) in shares.iter_mut().enumerate().filter(|(_, share)| share.role == *role) {
            if let Ports::Only(set) = &mut share.ports {
                let found = need.ports.named.iter().filter(|port| set.take(port.port));
                taken.ports.extend(found.map(|port| (index, port.port)));
            }
        }
    }
    for role in &need.roles {
        for (index, share) in shares.iter_mut().enumerate().filter(|(_, share)| share.role == *role) {
            if let Ports::Only(set) = &mut share.ports {
                while open > 0
                    && let Some(port) = set.take_lowest()
                {
                    taken.ports.push((index, port));
                    open -= 1;
                }
            }
        }
    }
}
