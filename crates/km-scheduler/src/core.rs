//! The scheduler's decisions. No IO: events in, actions out, time as a number.
//!
//! [`Core::handle`] is the only entry. It is used by the shell of this crate and, unchanged, by the simulation. What it
//! knows it can rebuild from the API server (pods and nodes) and from Mesos (reconciliation); only the framework id and
//! a number that grows with each start are kept elsewhere.

mod action;
mod agents;
mod asked;
mod backoff;
mod claims;
mod config;
mod demand;
mod effects;
mod event;
mod evictions;
mod executors;
mod extended;
mod feed;
mod framework;
mod homeless;
mod invariants;
mod kills;
mod lines;
mod lost;
mod needs;
mod nodes;
mod placing;
mod pods;
mod preempting;
mod reconcile;
mod recovered;
mod spreading;
mod status;
mod still_draining;
mod taints;
mod taken_ports;
mod timetable;
mod unschedulable;
mod upkeep;
mod view;
mod waiting;

pub use action::{Action, EventKind, Timing};
pub use asked::{AgentLine, Asked, DeclinedLine, ExplainPage, HeldLine, OffersPage, RoleLine};
pub use config::Config;
pub use effects::OpId;
pub use event::{AgentSeen, ApiFailure, ApiReply, CallOutcome, Event, Maintenance, PodListing, Request};
pub use executors::ExecutorLine;
pub use framework::{Framework, FrameworkAnswer, Subscription, subscribed as subscribed_roles};
pub use reconcile::{Tallies, Tally};
pub use spreading::DefaultSpread;
pub use view::{OfferLine, PodLine, QueueLine, TaskLine, Waiting};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use km_offers::Pool;
use km_podtask::{PodKey, Registry, TaskName};

use agents::Agents;
use demand::Demand;
use effects::Effects;
use feed::Feed;
use reconcile::Reconciler;
use waiting::Queue;

/// The scheduler's state.
pub struct Core {
    config: Config,
    /// Differs for every start; part of task ids.
    generation: u32,
    launches: u32,
    pool: Pool,
    tasks: Registry,
    /// All pods of the API server.
    pods: BTreeMap<PodKey, Arc<Pod>>,
    pod_by_name: BTreeMap<TaskName, PodKey>,
    queue: Queue,
    nodes: BTreeMap<String, Arc<Node>>,
    agents: Agents,
    demand: Demand,
    feed: Feed,
    declines: asked::Declines,
    reconciler: Reconciler,
    standing: framework::Standing,
    effects: Effects,
    evictions: evictions::Evictions,
    claims: claims::Claims,
    /// The selectors of services by namespace and name.
    services: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
    taken_ports: taken_ports::TakenPorts,
    prototypes: executors::Prototypes,
    /// The agents that inverse offers are about.
    inverse: BTreeMap<String, String>,
    /// When the maintenance of agents begins and ends next.
    upkeeps: timetable::Timetable<String>,
    /// Until when agents are left alone that refused a launch since they drain.
    still_draining: timetable::Timetable<String>,
    recovered: recovered::Strangers,
    kills: kills::Kills,
    accepts: BTreeMap<u64, Vec<String>>,
    next_accept: u64,
    subscribed: Option<Duration>,
    framework_id: Option<String>,
    synced: bool,
    /// Before this nothing is launched: tasks of an earlier scheduler may still make themselves heard.
    settled: Option<Duration>,
}

impl Core {
    /// `generation` is the number of this start of the framework, from 1.
    pub fn new(config: Config, generation: u32) -> Self {
        let pool = Pool::new(km_offers::Settings { ttl: config.offer_ttl, linger: config.offer_linger });
        let prototypes = executors::Prototypes::new(&config.executor, &config.former_executors);
        Self {
            prototypes,
            reconciler: Reconciler::new(&config),
            feed: Feed::new(config.policy),
            standing: framework::Standing::new(&config.framework),
            config,
            generation,
            launches: 0,
            pool,
            tasks: Registry::default(),
            pods: BTreeMap::new(),
            pod_by_name: BTreeMap::new(),
            queue: Queue::default(),
            nodes: BTreeMap::new(),
            agents: Agents::default(),
            demand: Demand::default(),
            declines: asked::Declines::default(),
            effects: Effects::default(),
            evictions: evictions::Evictions::default(),
            claims: claims::Claims::default(),
            services: BTreeMap::new(),
            taken_ports: taken_ports::TakenPorts::default(),
            inverse: BTreeMap::new(),
            upkeeps: timetable::Timetable::default(),
            still_draining: timetable::Timetable::default(),
            recovered: recovered::Strangers::default(),
            kills: kills::Kills::default(),
            accepts: BTreeMap::new(),
            next_accept: 0,
            subscribed: None,
            framework_id: None,
            synced: false,
            settled: None,
        }
    }

    /// Takes one event in and says what is to be done. `now` is the time since an arbitrary start and never goes back.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        self.note_change(now, &event);
        match event {
            Event::Subscribed(subscription) => self.on_subscribed(now, *subscription, &mut out),
            Event::SubscriptionRefused(reason) => self.on_subscription_refused(now, reason, &mut out),
            Event::Configured(framework) => self.on_configured(now, framework, &mut out),
            Event::FrameworkAnswer { number, answer } => self.on_framework_answer(now, number, answer, &mut out),
            Event::Disconnected => self.on_disconnected(now, &mut out),
            Event::FrameworkRemoved => self.on_framework_removed(&mut out),
            Event::Offers(offers) => self.on_offers(now, offers, &mut out),
            Event::Rescinded(id) => self.offers(now, km_offers::Event::Rescinded(id), &mut out),
            Event::InverseOffers(offers) => self.on_inverse_offers(now, offers, &mut out),
            Event::InverseRescinded(id) => self.on_inverse_rescinded(now, &id, &mut out),
            Event::Update(status) => self.on_update(now, &status, &mut out),
            Event::Failure { agent_id, executor_id } => self.on_failure(now, agent_id, executor_id, &mut out),
            Event::Agents(agents) => self.on_agents(now, agents, &mut out),
            Event::CachesSynced => self.on_synced(now, &mut out),
            Event::PodApplied(pod) => self.on_pod(now, pod, &mut out),
            Event::PodDeleted(pod) => self.on_pod_deleted(now, &pod),
            Event::NodeApplied(node) => self.on_node(now, node, &mut out),
            Event::NodeDeleted(name) => self.on_node_deleted(&name, &mut out),
            Event::Namespace { name, labels } => self.on_namespace(now, &name, labels),
            Event::Service { id, selector } => self.on_service(now, &id, selector, &mut out),
            Event::BudgetApplied(budget) => self.feed.budget(&budget, true),
            Event::BudgetDeleted(budget) => self.feed.budget(&budget, false),
            Event::Claim { id, claim } => self.on_claim(now, id, claim),
            Event::Volume { name, volume } => self.on_volume(now, name, volume),
            Event::StorageClass { name, class } => self.on_storage_class(now, &name, class.as_deref()),
            Event::Api { op, reply } => self.on_reply(now, op, reply, &mut out),
            Event::AcceptResult { batch, outcome } => self.on_accept_result(now, batch, outcome, &mut out),
            Event::Request(request) => self.on_request(now, request, &mut out),
            Event::Tick => {}
        }
        self.advance(now, &mut out);
        out
    }

    /// When the next [`Event::Tick`] is needed at the latest, if nothing else happens.
    pub fn next_wakeup(&self, now: Duration) -> Option<Duration> {
        let subscribed = self.subscribed.is_some();
        let timers = [
            self.pool.next_deadline(),
            self.effects.next_retry(),
            self.evictions.next_wakeup(),
            self.upkeeps.first(),
            self.still_draining.first(),
            self.agents.next_deadline(self.config.node_grace),
            subscribed.then(|| self.demand.next_wakeup(now, &self.config, &self.queue, &self.pool)).flatten(),
            subscribed.then(|| self.reconciler.next_wakeup()).flatten(),
            subscribed.then(|| self.kills.next_wakeup()).flatten(),
            self.recovered.next_wakeup(),
            self.taken_ports.next_wakeup(),
            self.settled.filter(|settled| *settled > now),
        ];
        timers.into_iter().flatten().min()
    }

    /// Everything that depends on time or follows from several events.
    fn advance(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.offers(now, km_offers::Event::Tick, out);
        self.effects.retry_due(now, out);
        self.expire_agents(now, out);
        self.retry_ports(now);
        self.upkeep_due(now, out);
        self.end_pauses_of_draining(now);
        self.evict_due(now, out);
        if self.subscribed.is_some() {
            self.repeat_kills(now, out);
            self.reconcile_due(now, out);
            self.confirm_strangers(now, out);
            self.retire_idle(now, out);
            self.pursue_demand(now, out);
        }
        self.check_invariants(now);
    }

    /// Passes an event to the pool and turns what follows into calls.
    fn offers(&mut self, now: Duration, event: km_offers::Event, out: &mut Vec<Action>) {
        match &event {
            km_offers::Event::Refused(ids, reason) => {
                for held in ids.iter().filter_map(|id| self.pool.get(&id.value)) {
                    self.declines.note(&held.offer, now, *reason, self.config.refuse);
                }
            }
            km_offers::Event::Received(offers) => {
                offers.iter().for_each(|offer| self.declines.forget(&offer.agent_id.value));
            }
            km_offers::Event::AgentLost(agent) => self.declines.forget(&agent.value),
            km_offers::Event::Disconnected => self.declines.clear(),
            _ => {}
        }
        for action in self.pool.handle(now, event) {
            match action {
                km_offers::Action::Decline { offers, reason } => {
                    // Offers that can't be declined now died with the connection.
                    if self.subscribed.is_some() {
                        out.push(Action::Decline { offers, refuse: self.config.refuse, reason });
                    }
                }
                km_offers::Action::Ended { offer, hostname, end } => {
                    tracing::debug!(offer = offer.value, hostname, ?end, "offer ended");
                    self.feed.node(&hostname);
                    self.agents.look_again(&hostname);
                }
                km_offers::Action::Wake(_) => {}
            }
        }
    }

    fn on_subscribed(&mut self, now: Duration, subscription: Subscription, out: &mut Vec<Action>) {
        // A connection may be replaced without its end being seen.
        self.offers(now, km_offers::Event::Disconnected, out);
        let first = self.framework_id.is_none() && self.generation > 1;
        self.framework_id = Some(subscription.framework_id.clone());
        self.subscribed = Some(now);
        self.demand.subscribed(now, subscription.suppressed);
        self.framework_subscribed(now, &subscription, out);
        self.reconciler.subscribed(now);
        self.evictions.stir(now);
        if first {
            // Launches of an earlier scheduler that are not bound yet make themselves heard in this time.
            self.settled = Some(now + self.config.settle_time);
        }
        self.kills.repeat_all(now);
    }

    fn on_disconnected(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.subscribed = None;
        self.inverse.clear();
        self.offers(now, km_offers::Event::Disconnected, out);
    }

    /// The master ended the framework for good: it is subscribed anew under another id. Nothing is deleted here:
    /// reconciliation under the new id tells what became of the tasks.
    fn on_framework_removed(&mut self, out: &mut Vec<Action>) {
        self.subscribed = None;
        self.framework_id = None;
        out.push(Action::ForgetFramework);
    }

    fn on_synced(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.synced = true;
        let agents: Vec<String> = self.agents.current().map(|agent| agent.id.clone()).collect();
        for agent in agents {
            self.ensure_node(&agent, out);
            self.ensure_taints(now, &agent, out);
        }
        self.evictions.stir(now);
        self.demand.touch(now);
    }

    fn on_request(&mut self, now: Duration, request: Request, out: &mut Vec<Action>) {
        match request {
            Request::Explicit => self.reconciler.request_explicit(now),
            Request::Implicit => self.reconciler.request_implicit(now),
            Request::Kamikaze => {
                for (agent_id, executor_id) in self.agents.executors(&self.nodes) {
                    out.push(Action::Message { agent_id, executor_id, data: km_podtask::messages::KAMIKAZE.into() });
                }
            }
        }
    }
}
