//! Placement rounds and launches.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use km_mesos_proto::v1;
use km_placement::Placement;
use km_podtask::{
    Flags, PodKey, PortStrategy, Procured, ProcurementError, State, Task, TaskParts, executor, procure, strategy_of,
    task_info, task_name,
};

use super::{Action, CallOutcome, Core, Timing, agents::takes_executor, feed::PoolOffers, waiting::Waiting};

/// The launches of one ACCEPT.
struct Batch {
    agent_id: String,
    hostname: String,
    executor: v1::ExecutorInfo,
    with_executor: bool,
    left: PoolOffers,
    tasks: Vec<v1::TaskInfo>,
    ids: Vec<String>,
}

impl Core {
    /// Places what waits on what is offered. Says whether anything was launched. Costs what it launches and the number
    /// of different needs among what waits.
    pub(super) fn place_round(&mut self, now: Duration, out: &mut Vec<Action>) -> bool {
        self.feed_engine();
        self.bind_claims(now, out);
        let mut failed = BTreeSet::new();
        let mut batches: BTreeMap<(String, usize), Batch> = BTreeMap::new();
        for (key, placement) in self.choose_places(now) {
            let batch = batches.entry((placement.node.clone(), placement.pool));
            let batch = batch.or_insert_with(|| self.new_batch(&placement));
            let since = self.queue.get(&key).map_or(now, |waiting| waiting.since);
            if self.launch(now, &key, &placement, batch) {
                out.push(Action::Observe(Timing::QueueWait(now.saturating_sub(since))));
            } else {
                self.feed.engine.undo(placement);
                self.feed.pod(key.clone());
                failed.insert(key);
            }
        }
        self.note_refusals(now, &failed, out);
        let mut launched = false;
        for batch in batches.into_values().filter(|batch| !batch.tasks.is_empty()) {
            launched = true;
            self.accept(now, batch, out);
        }
        launched
    }

    /// A place for each pod that may be launched and fits somewhere, in the order in which they must be launched. Room
    /// only shrinks meanwhile, so that of equal pods only one is refused; unless it looks at where others are, or a place
    /// is kept for it.
    fn choose_places(&mut self, now: Duration) -> Vec<(PodKey, Placement)> {
        let mut placed = Vec::new();
        let mut front = self.queue.front();
        while let Some(key) = front.next() {
            let Some(waiting) = self.queue.get(key).filter(|waiting| waiting.not_before <= now) else { continue };
            let need = &waiting.pending.need;
            if need.has_claims() && !self.claims.are_bound(need) {
                continue;
            }
            match self.feed.engine.try_place(&waiting.pending) {
                Some(placement) => {
                    if waiting.nominated.as_ref().is_some_and(|node| *node != placement.node) {
                        front.reopen();
                    }
                    placed.push((key.clone(), placement));
                }
                None if !need.looks_around() => front.close(),
                None => {}
            }
        }
        placed
    }

    /// Whether every agent that can be used shows an offer now.
    pub(super) fn is_offered_everything(&self) -> bool {
        let mut any = false;
        let mut all = true;
        for name in self.feed.engine.node_names() {
            any = true;
            let supply = self.feed.engine.supply(name);
            all &= supply.is_none_or(|supply| supply.blocked.is_some() || !supply.pools.is_empty());
        }
        any && all
    }

    /// The executor that comes along with a node's first pod is taken from that pod's pool; later ones are launched with
    /// the same.
    fn new_batch(&mut self, placement: &Placement) -> Batch {
        let agent = self.agents.on_host(&placement.node);
        let id = agent.map(|agent| agent.id.clone()).unwrap_or_default();
        let left = agent.and_then(|agent| self.pools(agent).into_values().nth(placement.pool)).unwrap_or_default();
        if placement.with_executor {
            let chosen = agent.and_then(|agent| self.executor_within(agent, &left.resources));
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.executor = chosen;
            }
        }
        let agent = self.agents.get(&id);
        let resources = agent.and_then(|agent| agent.executor.clone()).unwrap_or_default();
        Batch {
            executor: executor::on_agent(self.prototype_of(agent), &placement.node, resources),
            agent_id: id,
            hostname: placement.node.clone(),
            with_executor: false,
            left,
            tasks: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Makes the task of a placed pod. What can't be procured against the plan's promise stays in the queue. Says
    /// whether it is launched.
    fn launch(&mut self, now: Duration, key: &PodKey, placement: &Placement, batch: &mut Batch) -> bool {
        let Some(waiting) = self.queue.get(key) else { return false };
        let executor = placement.with_executor.then_some(batch.executor.resources.as_slice());
        let strategy = strategy_of(&waiting.pod, self.config.port_strategy);
        let procured = match take_all(&mut batch.left.resources, executor, waiting, strategy) {
            Ok(procured) => procured,
            Err(error) => {
                tracing::warn!(%key, agent = batch.agent_id, %error, "a placed pod can't be procured");
                return false;
            }
        };
        self.launches += 1;
        let pod = Arc::clone(&waiting.pod);
        let launch = (self.generation << 20) ^ (self.launches & 0xF_FFFF);
        let task = Task {
            id: task_name(&waiting.uid, launch),
            pod: key.clone(),
            pod_uid: waiting.uid.clone(),
            agent_id: batch.agent_id.clone(),
            hostname: batch.hostname.clone(),
            executor_id: batch.executor.executor_id.value.clone(),
            offer_id: batch.left.offers.first().map(|offer| offer.value.clone()).unwrap_or_default(),
            resources: procured.resources,
            ports: procured.ports,
            state: State::Pending,
            flags: Flags { launched: true, ..Flags::default() },
            created: waiting.since,
            launched: Some(now),
            bound: None,
            updated: None,
        };
        let discovery = self.config.discovery;
        let parts = TaskParts { task: &task, pod: &pod, executor: &batch.executor, discovery };
        let info = match task_info(&parts) {
            Ok(info) => info,
            Err(error) => {
                tracing::error!(%key, %error, "the pod can't be written as JSON");
                return false;
            }
        };
        let id = task.id.clone();
        if let Err(error) = self.tasks.register(task) {
            tracing::error!(%key, %error, "a waiting pod has a task");
            self.queue.remove(key);
            return false;
        }
        let need = self.queue.remove(key).map(|waiting| waiting.pending.need);
        if let (Some(need), Some(known)) = (need, self.pods.get(key).cloned()) {
            self.feed.launched(key, &known, need);
            debug_assert_eq!(self.known_need(key, &known), self.placed_need(&known).ok(), "the need of {key}");
        }
        batch.with_executor |= placement.with_executor;
        batch.tasks.push(info);
        batch.ids.push(id);
        true
    }

    fn accept(&mut self, now: Duration, batch: Batch, out: &mut Vec<Action>) {
        let offers = batch.left.offers;
        if let Some(agent) = self.agents.get_mut(&batch.agent_id) {
            agent.executor_runs |= batch.with_executor;
        }
        self.offers(now, km_offers::Event::Accepted(offers.clone()), out);
        let number = self.next_accept;
        self.next_accept += 1;
        self.accepts.insert(number, batch.ids);
        let refuse = if self.queue.is_empty() { self.config.refuse } else { Duration::ZERO };
        out.push(Action::Accept { batch: number, offers, tasks: batch.tasks, refuse });
    }

    pub(super) fn on_accept_result(&mut self, now: Duration, batch: u64, outcome: CallOutcome, out: &mut Vec<Action>) {
        let Some(ids) = self.accepts.remove(&batch) else { return };
        match outcome {
            CallOutcome::Accepted => {}
            // Mesos tells by reconciliation what became of them.
            CallOutcome::InDoubt => ids.iter().for_each(|id| self.reconciler.ask(id)),
            CallOutcome::Refused => {
                for id in ids {
                    let Some(task) = self.tasks.unregister(&id) else { continue };
                    self.kills.remove(&id);
                    if let Some(agent) = self.agents.get_mut(&task.agent_id) {
                        // The next offer tells; until then the executor is paid for again.
                        agent.executor_runs = false;
                    }
                    let pod = self.pods.get(&task.pod).filter(|pod| super::pods::uid(pod) == task.pod_uid).cloned();
                    match pod {
                        Some(pod) => self.requeue(now, &pod, Duration::ZERO, out),
                        None => self.let_successor_in(now, &task, out),
                    }
                }
            }
        }
    }
}

/// Takes what a pod needs, and before it what its executor does, out of what is left of the offers; or nothing.
fn take_all(
    left: &mut Vec<v1::Resource>,
    executor: Option<&[v1::Resource]>,
    waiting: &Waiting,
    strategy: PortStrategy,
) -> Result<Procured, ProcurementError> {
    let spec = waiting.pod.spec.as_ref().map_or_else(Cow::default, Cow::Borrowed);
    let pod = |left: &mut Vec<v1::Resource>| procure(left, &waiting.want, &spec, &waiting.pending.need.roles, strategy);
    let Some(executor) = executor else { return pod(left) };
    let mut rest = left.clone();
    if !takes_executor(&mut rest, executor) {
        return Err(ProcurementError::Insufficient("room for the executor".to_owned()));
    }
    let procured = pod(&mut rest)?;
    *left = rest;
    Ok(procured)
}
