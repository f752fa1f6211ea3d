//! Strangers: tasks that Mesos knows and we don't.
//!
//! They come from a scheduler before us that launched them and whose pods are not bound yet, or their pods were
//! deleted while nobody listened. The first kind is adopted, the second killed, but only on proof.

use std::{collections::BTreeMap, time::Duration};

use km_kube::{keys, pod};
use km_mesos_proto::v1::{TaskState, TaskStatus};
use km_podtask::{Flags, PodKey, State, Task, TaskName};

use super::{
    Action, Core, PodListing,
    effects::{Ack, Then},
    pods::{annotation, uid},
    status::is_alive,
};

/// How long a stranger is known before its pod's absence is looked into.
const PATIENCE: Duration = Duration::from_secs(2);

/// The strangers without a pod.
#[derive(Default)]
pub(super) struct Strangers {
    /// Agent and since when, by task id.
    open: BTreeMap<String, (String, Duration)>,
    listing: bool,
    next_look: Option<Duration>,
}

impl Strangers {
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
                self.recovered.open.remove(id);
                self.kills.remove(id);
            }
            return;
        }
        let agent = status.agent_id.as_ref().map(|agent| agent.value.clone()).unwrap_or_default();
        if self.kills.contains_key(id) {
            return;
        }
        let key = TaskName::of_task(id).and_then(|name| self.pod_by_name.get(&name)).cloned();
        let Some(key) = key else {
            self.recovered.open.entry(id.to_owned()).or_insert((agent, now));
            self.recovered.next_look.get_or_insert(now + PATIENCE);
            return;
        };
        if self.may_adopt(&key, id) {
            self.adopt(now, key, id, agent, state);
        } else {
            tracing::warn!(%key, task = id, "a second task of the pod is killed");
            self.kill(now, id, &agent);
        }
    }

    /// Whether the pod has no other task and isn't over.
    fn may_adopt(&self, key: &PodKey, id: &str) -> bool {
        let Some(known) = self.pods.get(key) else { return false };
        let bound_to = annotation(known, keys::TASK_ID);
        let bound_by_other = pod::is_scheduled(known) && bound_to.is_some_and(|other| other != id);
        self.tasks.of_pod(key).is_none() && !pod::is_terminal(known) && !bound_by_other
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
            agent_id,
            hostname,
            executor_id: self.config.executor.executor_id.value.clone(),
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
        let open: Vec<(String, String)> =
            self.recovered.open.iter().map(|(id, (agent, _))| (id.clone(), agent.clone())).collect();
        for (id, agent) in open {
            let name = TaskName::of_task(&id);
            if let Some(key) = name.and_then(|name| self.pod_by_name.get(&name)).cloned() {
                self.recovered.open.remove(&id);
                if self.may_adopt(&key, &id) {
                    self.adopt(now, key, &id, agent, TaskState::TaskStaging);
                    self.reconciler.ask(&id);
                } else if self.tasks.get(&id).is_none() {
                    self.kill(now, &id, &agent);
                }
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

    /// A fresh and complete list is there: strangers whose pod is not in it have none.
    pub(super) fn judge_strangers(&mut self, now: Duration, listing: &PodListing) {
        self.recovered.listing = false;
        self.recovered.next_look = Some(now + Duration::from_secs(30));
        if !listing.ours {
            tracing::warn!("the API server doesn't know our framework: tasks without pods are left alone");
            return;
        }
        let names: Vec<TaskName> = listing.uids.iter().map(|uid| TaskName::of_pod(uid)).collect();
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
            self.recovered.open.remove(&id);
            self.kill(now, &id, &agent);
        }
    }
}
