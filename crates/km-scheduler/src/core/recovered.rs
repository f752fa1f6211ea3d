//! Strangers: tasks that Mesos knows and we don't.
//!
//! They come from a scheduler before us that launched them and whose pods are not bound yet, or their pods were
//! deleted while nobody listened. The first kind is adopted, the second killed, but only on proof.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use km_kube::{keys, pod};
use km_mesos_proto::v1::{TaskState, TaskStatus};
use km_podtask::{Flags, PodKey, State, Task, TaskName};

use super::{
    Action, Core, PodListing,
    effects::{Ack, Then},
    pods::{annotation, uid},
    status::is_alive,
};

/// Whether the pod was bound by another task than this.
fn bound_by_other(pod: &Pod, id: &str) -> bool {
    pod::is_scheduled(pod) && annotation(pod, keys::TASK_ID).is_some_and(|other| other != id)
}

/// How long a stranger is known before its pod's absence is looked into.
const PATIENCE: Duration = Duration::from_secs(2);

/// The strangers without a pod.
#[derive(Default)]
pub(super) struct Strangers {
    /// Agent and since when, by task id.
    open: BTreeMap<String, (String, Duration)>,
    /// The same by the part of the id that names the pod.
    by_name: BTreeSet<(TaskName, String)>,
    /// Those whose pod came meanwhile; it may be gone again.
    met: BTreeSet<String>,
    listing: bool,
    next_look: Option<Duration>,
}

impl Strangers {
    fn add(&mut self, now: Duration, id: &str, agent: &str) {
        if !self.open.contains_key(id) {
            self.open.insert(id.to_owned(), (agent.to_owned(), now));
            self.by_name.extend(TaskName::of_task(id).map(|name| (name, id.to_owned())));
        }
        self.next_look.get_or_insert(now + PATIENCE);
    }

    fn remove(&mut self, id: &str) {
        if self.open.remove(id).is_some() {
            TaskName::of_task(id).map(|name| self.by_name.remove(&(name, id.to_owned())));
            self.met.remove(id);
        }
    }

    /// A pod came: strangers may be its tasks.
    pub fn meet(&mut self, name: TaskName) {
        let named = self.by_name.range((name, String::new())..).take_while(|(other, _)| *other == name);
        self.met.extend(named.map(|(_, id)| id.clone()));
    }

    pub fn next_wakeup(&self) -> Option<Duration> {
        if self.listing || self.open.is_empty() { None } else { self.next_look }
    }
}

impl Core {
    pub(super) fn on_stranger(
        &mut self,
        now: Duration,
        status: &TaskStatus,
        state: TaskState,
        ack: Option<Ack>,
        out: &mut Vec<Action>,
    ) {
        let id = status.task_id.value.as_str();
        out.extend(ack.map(Ack::action));
        if !is_alive(state) {
            let unknown = state == TaskState::TaskUnknown && self.believe_unknown(now) == TaskState::TaskUnknown;
            if state != TaskState::TaskUnreachable && !unknown {
                self.recovered.remove(id);
                self.kills.remove(id);
            }
            return;
        }
        let agent = status.agent_id.as_ref().map(|agent| agent.value.clone()).unwrap_or_default();
        if self.kills.hasten(id, now + Duration::from_secs(1)) {
            return;
        }
        let key = self.pod_of_stranger(id).cloned();
        let Some(key) = key else {
            self.recovered.add(now, id, &agent);
            return;
        };
        self.meet_stranger(now, key, id, &agent, state, out);
    }

    /// A stranger whose pod is known: adopted if the pod has no other task, killed if the pod is over or bound by
    /// another. Between the stranger and an unbound task of ours the API server decides.
    fn meet_stranger(
        &mut self,
        now: Duration,
        key: PodKey,
        id: &str,
        agent: &str,
        state: TaskState,
        out: &mut Vec<Action>,
    ) {
        let Some(known) = self.pods.get(&key) else { return };
        if pod::is_terminal(known) || bound_by_other(known, id) {
            tracing::warn!(%key, task = id, "a second task of the pod is killed");
            self.kill(now, id, agent);
        } else if self.tasks.of_pod(&key).is_none() {
            self.adopt(now, key, id, agent.to_owned(), state);
        } else if !self.effects.judging(id) {
            let uid = uid(known);
            let then = Then::JudgeRival { task_id: id.to_owned(), agent_id: agent.to_owned(), pod: key.clone() };
            self.effects.start(then, out, |op| Action::FetchPod { op, pod: key, uid });
        }
    }

    /// What the API server says about a pod that a stranger and a task of ours claim.
    pub(super) fn judge_rival(
        &mut self,
        now: Duration,
        (id, agent): (&str, &str),
        key: &PodKey,
        current: Option<&Pod>,
        out: &mut Vec<Action>,
    ) {
        match current {
            Some(pod) if !pod::is_terminal(pod) && !bound_by_other(pod, id) => {
                // Ours yields if the stranger bound it. If nobody did yet, the question is asked again.
                self.compare_with_task(now, key, pod, out);
                if self.tasks.get(id).is_none() {
                    self.recovered.add(now, id, agent);
                    self.recovered.met.insert(id.to_owned());
                }
            }
            _ => {
                tracing::warn!(%key, task = id, "a task that lost its pod to another is killed");
                self.kill(now, id, agent);
            }
        }
    }

    fn adopt(&mut self, now: Duration, key: PodKey, id: &str, agent_id: String, state: TaskState) {
        let hostname = self.agents.get(&agent_id).map(|agent| agent.hostname.clone());
        let by_node = || {
            self.nodes.iter().find_map(|(name, node)| {
                let annotations = node.metadata.annotations.as_ref()?;
                (annotations.get(keys::SLAVE_ID) == Some(&agent_id)).then(|| name.clone())
            })
        };
        let hostname = hostname.or_else(by_node).unwrap_or_default();
        self.queue.remove(&key);
        tracing::info!(%key, task = id, ?state, "a task of an earlier scheduler is adopted");
        let task = Task {
            id: id.to_owned(),
            pod_uid: self.pods.get(&key).map(|pod| uid(pod)).unwrap_or_default(),
            pod: key,
            hostname,
            executor_id: self.prototype_of(self.agents.get(&agent_id)).executor_id.value.clone(),
            agent_id,
            offer_id: String::new(),
            resources: Vec::new(),
            ports: Vec::new(),
            state: State::Pending,
            flags: Flags { launched: true, ..Flags::default() },
            created: now,
            launched: Some(now),
            bound: None,
            updated: None,
        };
        if let Err(error) = self.tasks.register(task) {
            tracing::error!(task = id, %error, "the task can't be adopted");
            return;
        }
        self.tasks.update_status(now, id, state);
    }

    /// Asks the API server itself for the pods of strangers.
    pub(super) fn confirm_strangers(&mut self, now: Duration, out: &mut Vec<Action>) {
        // Pods that came meanwhile.
        let met = self.recovered.met.iter();
        let met = met.filter_map(|id| Some((id.clone(), self.recovered.open.get(id)?.0.clone())));
        for (id, agent) in met.collect::<Vec<_>>() {
            if let Some(key) = self.pod_of_stranger(&id).cloned() {
                if self.recovered.next_look.is_some_and(|look| look > now) && self.tasks.of_pod(&key).is_some() {
                    continue;
                }
                self.recovered.remove(&id);
                if self.tasks.get(&id).is_none() {
                    self.meet_stranger(now, key, &id, &agent, TaskState::TaskStaging, out);
                    self.reconciler.ask(&id);
                }
            } else {
                self.recovered.met.remove(&id);
            }
        }
        let strangers = &mut self.recovered;
        if strangers.open.is_empty() {
            strangers.next_look = None;
        } else if !strangers.listing && strangers.next_look.is_some_and(|look| look <= now) {
            strangers.listing = true;
            self.effects.start(Then::JudgeStrangers, out, |op| Action::ListPods { op });
        }
    }

    fn pod_of_stranger(&self, id: &str) -> Option<&PodKey> {
        TaskName::of_task(id).and_then(|name| self.pod_by_name.get(&name))
    }

    /// Panics unless strangers whose pod is there are known to have met it.
    pub(super) fn check_strangers(&self) {
        let mut here = self.recovered.open.keys().filter(|id| self.pod_of_stranger(id).is_some());
        assert!(here.all(|id| self.recovered.met.contains(id)), "strangers whose pod came");
    }

    /// A fresh and complete list is there: strangers whose pod is not in it have none.
    pub(super) fn judge_strangers(&mut self, now: Duration, listing: &PodListing) {
        self.recovered.listing = false;
        self.recovered.next_look = Some(now + Duration::from_secs(30));
        if !listing.ours {
            tracing::warn!("the API server doesn't know our framework: tasks without pods are left alone");
            return;
        }
        let names: BTreeSet<TaskName> = listing.uids.iter().map(|uid| TaskName::of_pod(uid)).collect();
        let known = |id: &str| TaskName::of_task(id).is_some_and(|name| names.contains(&name));
        // Those that came after the listing was asked for are judged by the next one.
        let old = |since: Duration| since + PATIENCE <= now;
        let gone: Vec<(String, String)> = self
            .recovered
            .open
            .iter()
            .filter(|(id, (_, since))| old(*since) && !known(id))
            .map(|(id, (agent, _))| (id.clone(), agent.clone()))
            .collect();
        for (id, agent) in gone {
            tracing::warn!(task = id, "a task without a pod is killed");
            self.recovered.remove(&id);
            self.kill(now, &id, &agent);
        }
    }
}
