//! The library's decisions. No IO: events in, actions out.
//!
//! Offers are kept by [`km_offers::Pool`], for as long as Mesos lets us; the states of tasks by [`km_podtask::Registry`].

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_kube::selector::LabelSelector;
use km_mesos_proto::v1;
use km_offers::Pool;
use km_podtask::{Flags, PodKey, Registry, State as TaskState, Task};

use super::{Error, PodTask, Policy, Slave};

/// What Mesos says. Anything may be repeated; unknown ids are harmless.
#[derive(Clone, Debug)]
pub enum Event {
    Registered {
        framework_id: v1::FrameworkId,
        master: v1::MasterInfo,
    },
    Reregistered {
        master: v1::MasterInfo,
    },
    /// Offers are kept: a driver that knows them to be void says so by [`Event::OfferRescinded`].
    Disconnected,
    ResourceOffers(Vec<v1::Offer>),
    OfferRescinded(v1::OfferId),
    StatusUpdate(Box<v1::TaskStatus>),
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Whoever waits for this task's machine can be told.
    Selected {
        task_id: String,
        hostname: String,
    },
    /// Nobody needs to wait for this task's machine any more.
    Dropped {
        task_id: String,
    },
    Launch {
        offers: Vec<v1::OfferId>,
        task: Box<v1::TaskInfo>,
    },
    Kill {
        task_id: v1::TaskId,
    },
    Decline {
        offers: Vec<v1::OfferId>,
    },
}

/// One table of offers, agents and tasks.
pub struct State {
    executor: v1::ExecutorInfo,
    policy: Box<dyn Policy>,
    framework_id: Option<v1::FrameworkId>,
    master: Option<v1::MasterInfo>,
    registered: bool,
    pool: Pool,
    /// Host names of all agents that ever made an offer.
    slaves: BTreeMap<String, String>,
    registry: Registry,
    /// The tasks that didn't end, first come first.
    tasks: BTreeMap<u64, PodTask>,
    numbers: BTreeMap<String, u64>,
    next_number: u64,
}

impl State {
    pub fn new(executor: v1::ExecutorInfo, policy: Box<dyn Policy>) -> Self {
        Self {
            executor,
            policy,
            framework_id: None,
            master: None,
            registered: false,
            pool: Pool::new(km_offers::Settings { ttl: Duration::MAX, ..km_offers::Settings::default() }),
            slaves: BTreeMap::new(),
            registry: Registry::default(),
            tasks: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Takes in what Mesos says. `now` is the time since an arbitrary start and never goes back.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        self.offers(now, km_offers::Event::Tick);
        match event {
            Event::Registered { framework_id, master } => {
                self.framework_id = Some(framework_id);
                self.master = Some(master);
                self.registered = true;
            }
            Event::Reregistered { master } => {
                self.master = Some(master);
                self.registered = true;
            }
            Event::Disconnected => self.registered = false,
            Event::ResourceOffers(offers) => {
                for offer in &offers {
                    self.slaves.entry(offer.agent_id.value.clone()).or_insert_with(|| offer.hostname.clone());
                }
                self.offers(now, km_offers::Event::Received(offers));
                self.round(now, &mut out);
            }
            Event::OfferRescinded(id) => {
                self.offers(now, km_offers::Event::Rescinded(id));
            }
            Event::StatusUpdate(status) => self.update(now, &status, &mut out),
        }
        out
    }

    /// A pod waits for a machine. `id` is its new task's.
    pub fn schedule(
        &mut self,
        now: Duration,
        id: String,
        pod: Pod,
        machines: Vec<String>,
    ) -> Result<Vec<Action>, Error> {
        let key = PodKey::of(&pod.metadata);
        let mut out = Vec::new();
        if let Some(old) = self.registry.of_pod(&key) {
            if old.flags.launched {
                return Err(Error::AlreadyLaunched(key));
            }
            let old = old.id.clone();
            self.drop_task(now, &old, &mut out);
        }
        let task = waiting_task(now, id.clone(), key.clone(), &pod);
        // The pod has no task now, so only an id that was used before is refused.
        self.registry.register(task).map_err(|_used| Error::AlreadyLaunched(key))?;
        self.numbers.insert(id.clone(), self.next_number);
        self.tasks.insert(self.next_number, PodTask::new(id, pod, machines, self.executor.clone()));
        self.next_number += 1;
        self.round(now, &mut out);
        Ok(out)
    }

    /// Nobody waits for the pod's machine any more, so it is forgotten unless it was launched.
    pub fn withdraw(&mut self, now: Duration, id: &str) -> Vec<Action> {
        let mut out = Vec::new();
        if self.registry.get(id).is_some_and(|task| !task.flags.launched) {
            self.drop_task(now, id, &mut out);
        }
        out
    }

    /// Launches a pod that has a machine.
    pub fn create_pod(&mut self, now: Duration, key: &PodKey) -> Result<Action, Error> {
        let task = self.registry.of_pod(key).ok_or_else(|| Error::NotScheduled(key.clone()))?;
        if task.flags.launched {
            return Err(Error::AlreadyLaunched(key.clone()));
        }
        let id = task.id.clone();
        let Some(task) = self.numbers.get(&id).and_then(|number| self.tasks.get_mut(number)) else {
            return Err(Error::NotScheduled(key.clone()));
        };
        let offers = task.offer_ids.clone();
        if offers.is_empty() {
            return Err(Error::NotScheduled(key.clone()));
        }
        if offers.iter().any(|offer| self.pool.get(&offer.value).is_none()) {
            task.reset();
            self.offers(now, km_offers::Event::Released(offers));
            return Err(Error::OfferGone(key.clone()));
        }
        let task = Box::new(task.task_info.clone());
        self.offers(now, km_offers::Event::Accepted(offers.clone()));
        self.registry.amend(&id, |task| {
            task.flags.launched = true;
            task.launched = Some(now);
        });
        Ok(Action::Launch { offers, task })
    }

    /// A launch that the driver could not make.
    pub fn launch_failed(&mut self, now: Duration, id: &str) -> Vec<Action> {
        let mut out = Vec::new();
        self.drop_task(now, id, &mut out);
        out
    }

    /// Kills a pod that runs.
    pub fn delete_pod(&mut self, key: &PodKey) -> Result<Action, Error> {
        let task = self.registry.of_pod(key).ok_or_else(|| self.missing(key))?;
        if task.state != TaskState::Running {
            return Err(Error::NotRunning(key.clone()));
        }
        let id = task.id.clone();
        self.registry.amend(&id, |task| task.flags.deleted = true);
        Ok(Action::Kill { task_id: id.into() })
    }

    /// Gives back every offer that no pod uses.
    pub fn return_offers(&mut self, now: Duration) -> Vec<Action> {
        let free = self.pool.iter().filter(|held| !held.acquired).map(|held| held.offer.id.clone()).collect();
        self.offers(now, km_offers::Event::Refused(free, km_offers::DeclineReason::Idle))
    }

    /// A pod that waits or runs.
    pub fn get_pod(&self, key: &PodKey) -> Result<Pod, Error> {
        let task = self.registry.of_pod(key).ok_or_else(|| self.missing(key))?;
        self.task(&task.id).map(|task| task.pod.clone()).ok_or_else(|| Error::UnknownPod(key.clone()))
    }

    /// The pods that run, then those that wait, as far as their labels match.
    pub fn list_pods(&self, selector: &LabelSelector) -> Vec<Pod> {
        let in_state = |state| {
            let tasks = self.tasks.values();
            tasks.filter(move |task| self.registry.get(&task.id).is_some_and(|known| known.state == state))
        };
        let all = in_state(TaskState::Running).chain(in_state(TaskState::Pending));
        all.filter(|task| selector.matches_meta(&task.pod.metadata)).map(|task| task.pod.clone()).collect()
    }

    pub fn is_registered(&self) -> bool {
        self.registered
    }

    pub fn framework_id(&self) -> Option<&v1::FrameworkId> {
        self.framework_id.as_ref()
    }

    pub fn master(&self) -> Option<&v1::MasterInfo> {
        self.master.as_ref()
    }

    /// Agents that ever made an offer: id and host name.
    pub fn slaves(&self) -> impl Iterator<Item = (&str, &str)> {
        self.slaves.iter().map(|(id, hostname)| (id.as_str(), hostname.as_str()))
    }

    /// The offers that no pod uses.
    pub fn free_offers(&self) -> impl Iterator<Item = &v1::Offer> {
        self.pool.iter().filter(|held| !held.acquired).map(|held| &held.offer)
    }

    /// Tasks that were launched and didn't end, with their agents: what to reconcile.
    pub fn launched(&self) -> Vec<(String, String)> {
        let launched = self.registry.live().filter(|task| task.flags.launched);
        launched.map(|task| (task.id.clone(), task.agent_id.clone())).collect()
    }

    fn task(&self, id: &str) -> Option<&PodTask> {
        self.numbers.get(id).and_then(|number| self.tasks.get(number))
    }

    fn missing(&self, key: &PodKey) -> Error {
        let finished = self.registry.iter().any(|task| task.pod == *key && task.state == TaskState::Finished);
        if finished { Error::Finished(key.clone()) } else { Error::UnknownPod(key.clone()) }
    }

    /// Asks the policy until it places nothing more.
    fn round(&mut self, now: Duration, out: &mut Vec<Action>) {
        loop {
            let mut slaves: BTreeMap<&str, Slave<'_>> = BTreeMap::new();
            for (id, hostname) in &self.slaves {
                let free = self.pool.of_agent(id).filter(|held| !held.acquired);
                let offers = free.map(|held| (held.offer.id.value.as_str(), &held.offer)).collect();
                slaves.insert(id, Slave { hostname, offers });
            }
            let mut waiting: Vec<&mut PodTask> =
                self.tasks.values_mut().filter(|task| task.offer_ids.is_empty()).collect();
            if waiting.is_empty() {
                return;
            }
            let placed = self.policy.place(&slaves, &mut waiting);
            let touched: Vec<String> =
                waiting.iter().filter(|task| !task.offer_ids.is_empty()).map(|task| task.id.clone()).collect();
            let mut any = false;
            for id in touched {
                any |= self.settle(now, &id, placed.contains(&id), out);
            }
            if !any {
                return;
            }
        }
    }

    /// Takes over what the policy decided on a task, if it kept to the rules.
    fn settle(&mut self, now: Duration, id: &str, placed: bool, out: &mut Vec<Action>) -> bool {
        let Some(task) = self.numbers.get(id).and_then(|number| self.tasks.get_mut(number)) else { return false };
        let agent = task.task_info.agent_id.value.clone();
        let usable = task.offer_ids.iter().all(|offer| {
            self.pool.get(&offer.value).is_some_and(|held| !held.acquired && held.offer.agent_id.value == agent)
        });
        let Some(hostname) = task.selected_machine.take().filter(|_| usable && placed) else {
            tracing::error!(task = id, "the policy filled in a task without placing it on a free offer: undone");
            task.reset();
            return false;
        };
        let (offers, resources) = (task.offer_ids.clone(), task.task_info.resources.clone());
        self.registry.amend(id, |task| {
            task.agent_id = agent;
            task.hostname.clone_from(&hostname);
            task.offer_id = offers.first().map(|offer| offer.value.clone()).unwrap_or_default();
            task.resources = resources;
        });
        self.offers(now, km_offers::Event::Acquired(offers));
        out.push(Action::Selected { task_id: id.to_owned(), hostname });
        true
    }

    fn update(&mut self, now: Duration, status: &v1::TaskStatus, out: &mut Vec<Action>) {
        let id = &status.task_id.value;
        let state = status.state();
        let agent = status.agent_id.as_ref().map(|agent| agent.value.as_str()).unwrap_or_default();
        let by_executor = matches!(state, v1::TaskState::TaskRunning | v1::TaskState::TaskFinished);
        if by_executor && !self.slaves.contains_key(agent) {
            tracing::warn!(task = id, agent, ?state, "status update from an agent that never made an offer: ignored");
            return;
        }
        let transition = self.registry.update_status(now, id, state);
        let Some(task) = transition.task else {
            tracing::warn!(task = id, ?state, "status update for an unknown task: ignored");
            return;
        };
        if transition.removed || task.state == TaskState::Finished {
            tracing::info!(task = id, pod = %task.pod, ?state, message = status.message(), "the task ended");
            self.forget(now, id, out);
        } else if task.state == TaskState::Running
            && let Some(podtask) = self.numbers.get(id).and_then(|number| self.tasks.get_mut(number))
        {
            show_running(&mut podtask.pod, &task.hostname, status.data());
        }
    }

    fn drop_task(&mut self, now: Duration, id: &str, out: &mut Vec<Action>) {
        self.registry.unregister(id);
        self.forget(now, id, out);
    }

    /// Frees what an ended task held.
    fn forget(&mut self, now: Duration, id: &str, out: &mut Vec<Action>) {
        let Some(task) = self.numbers.remove(id).and_then(|number| self.tasks.remove(&number)) else { return };
        self.offers(now, km_offers::Event::Released(task.offer_ids));
        out.push(Action::Dropped { task_id: id.to_owned() });
    }

    fn offers(&mut self, now: Duration, event: km_offers::Event) -> Vec<Action> {
        let declined = self.pool.handle(now, event).into_iter().filter_map(|action| match action {
            km_offers::Action::Decline { offers, .. } => Some(Action::Decline { offers }),
            km_offers::Action::Wake(_) | km_offers::Action::Ended { .. } => None,
        });
        declined.collect()
    }
}

fn waiting_task(now: Duration, id: String, pod: PodKey, object: &Pod) -> Task {
    Task {
        id,
        pod,
        pod_uid: object.metadata.uid.clone().unwrap_or_default(),
        agent_id: String::new(),
        hostname: String::new(),
        executor_id: String::new(),
        offer_id: String::new(),
        resources: Vec::new(),
        ports: Vec::new(),
        state: TaskState::Pending,
        flags: Flags::default(),
        created: now,
        launched: None,
        bound: None,
        updated: None,
    }
}

/// Writes into a pod that it runs, where, and what the executor says of its containers: a JSON object whose `status` is
/// a pod's. Other data says nothing.
fn show_running(pod: &mut Pod, hostname: &str, data: &[u8]) {
    #[derive(serde::Deserialize)]
    struct Said {
        status: k8s_openapi::api::core::v1::PodStatus,
    }
    match serde_json::from_slice::<Said>(data) {
        Ok(said) => pod.status = Some(said.status),
        Err(error) if !data.is_empty() => tracing::warn!(%error, "the executor's data is no pod status"),
        Err(_) => {}
    }
    pod.status.get_or_insert_default().phase = Some("Running".to_owned());
    pod.spec.get_or_insert_default().node_name = Some(hostname.to_owned());
}
