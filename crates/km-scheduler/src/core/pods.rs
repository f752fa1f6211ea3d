//! What the API server says about pods.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_kube::{keys, pod};
use km_podtask::{PodKey, Recovered, TaskName, recover};

use super::{Action, ApiFailure, ApiReply, Core, OpId, effects::Then, unschedulable::Hold};

impl Core {
    pub(super) fn on_pod(&mut self, now: Duration, new: Arc<Pod>, out: &mut Vec<Action>) {
        let key = PodKey::of(&new.metadata);
        let uid = uid(&new);
        if let Some(old) = self.pods.get(&key).filter(|old| self::uid(old) != uid).cloned() {
            // Deleted and created again between two looks.
            self.on_pod_deleted(now, &old);
        }
        let name = TaskName::of_pod(&uid);
        self.pod_by_name.insert(name, key.clone());
        self.recovered.meet(name);
        self.pods.insert(key.clone(), Arc::clone(&new));
        if pod::is_mirror(&new) || pod::is_terminal(&new) {
            self.queue.remove(&key);
            return;
        }
        if self.tasks.of_pod(&key).is_some() {
            self.compare_with_task(now, &key, &new, out);
            if self.evictions.any {
                self.evictions.stir(now);
            }
            return;
        }
        match recover(now, &new) {
            Ok(Recovered::Task(task)) => {
                self.queue.remove(&key);
                self.reconciler.ask(&task.id);
                if let Err(error) = self.tasks.register(*task) {
                    tracing::warn!(%key, %error, "the pod's task can't be taken over");
                }
            }
            Ok(Recovered::Nothing) => self.consider_waiting(now, key, &new, out),
            Err(error) => tracing::warn!(%error, "the pod is left alone"),
        }
    }

    pub(super) fn on_pod_deleted(&mut self, now: Duration, old: &Pod) {
        let key = PodKey::of(&old.metadata);
        let uid = uid(old);
        if self.pods.get(&key).is_some_and(|known| self::uid(known) == uid) {
            self.pods.remove(&key);
        }
        self.pod_by_name.remove(&TaskName::of_pod(&uid));
        self.queue.forgive(&key);
        self.queue.held.remove(&key);
        if self.queue.get(&key).is_some_and(|waiting| waiting.uid == uid) {
            self.queue.remove(&key);
        }
        let task = self.tasks.of_pod(&key).filter(|task| task.pod_uid == uid);
        if let Some((id, agent)) = task.map(|task| (task.id.clone(), task.agent_id.clone())) {
            let unreachable = task.is_some_and(|task| task.flags.unreachable);
            self.kill(now, &id, &agent);
            if unreachable {
                // Its name is free for another pod. The KILL is repeated until Mesos says that the task has ended.
                self.tasks.unregister(&id);
            }
        }
    }

    /// A pod that has a task: is it the one that the API server knows as bound?
    pub(super) fn compare_with_task(&mut self, now: Duration, key: &PodKey, new: &Pod, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.of_pod(key) else { return };
        let bound_to = annotation(new, keys::TASK_ID);
        if !pod::is_scheduled(new) || bound_to.is_none() {
            return;
        }
        let (id, agent) = (task.id.clone(), task.agent_id.clone());
        if bound_to == Some(id.as_str()) {
            if !task.flags.bound {
                self.tasks.amend(&id, |task| {
                    task.flags.bound = true;
                    task.bound.get_or_insert(now);
                });
                self.queue.forgive(key);
                self.announce_binding(&id, out);
            }
            return;
        }
        // Another launch of the same pod was bound first: ours will not start it.
        tracing::warn!(%key, task = id, bound = bound_to, "the pod is bound by another task");
        self.kill(now, &id, &agent);
        self.tasks.unregister(&id);
        if let Ok(Recovered::Task(task)) = recover(now, new) {
            self.reconciler.ask(&task.id);
            if let Err(error) = self.tasks.register(*task) {
                tracing::warn!(%key, %error, "the pod's task can't be taken over");
            }
        }
    }

    /// A pod without a task, not launched by us before.
    pub(super) fn consider_waiting(&mut self, now: Duration, key: PodKey, new: &Arc<Pod>, out: &mut Vec<Action>) {
        let Some(spec) = &new.spec else { return };
        let name = spec.scheduler_name.as_deref().unwrap_or_default();
        let ours = name.is_empty() || self.config.scheduler_names.iter().any(|known| known == name);
        let elsewhere = annotation(new, keys::CONFIG_SOURCE).is_some() || annotation(new, keys::BINDING_HOST).is_some();
        if !ours || elsewhere {
            self.queue.remove(&key);
            return;
        }
        if pod::is_deleting(new) {
            self.queue.remove(&key);
            if pod::is_scheduled(new) {
                // Its node was chosen by hand and no executor has seen it: nobody else will end it.
                let uid = uid(new);
                self.effects.start(Then::Nothing, out, |op| Action::DeletePod { op, pod: key, uid });
            }
            return;
        }
        if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
            self.queue.remove(&key);
            self.hold_back(&key, new, Hold::Gated, out);
            return;
        }
        if self.deciding_pod(&key) {
            return;
        }
        self.enqueue(now, new, now, out);
    }

    /// Whether the end of an earlier task of this pod is being decided.
    fn deciding_pod(&self, key: &PodKey) -> bool {
        self.effects.deciding_pod(key)
    }

    /// Puts a pod whose task ended without having been bound back into the queue.
    pub(super) fn requeue(&mut self, now: Duration, pod: &Arc<Pod>, pause: Duration, out: &mut Vec<Action>) {
        self.enqueue(now, pod, now + pause, out);
    }

    /// The end of an operation on the API server.
    pub(super) fn on_reply(&mut self, now: Duration, op: OpId, reply: ApiReply, out: &mut Vec<Action>) {
        if let ApiReply::Failed(ApiFailure::Unavailable(reason)) = &reply
            && self.effects.is_repeated(op)
        {
            tracing::debug!(op, reason, "the operation will be tried again");
            self.effects.retry_later(now, op);
            return;
        }
        let Some(then) = self.effects.finish(op) else { return };
        if let ApiReply::Failed(ApiFailure::Refused(reason)) = &reply {
            tracing::warn!(op, reason, "the API server refused an operation");
        }
        match then {
            Then::Nothing => {}
            Then::Reserved { volume, version } => self.on_reserved(now, &volume, &version, &reply),
            Then::Selected { claim, version } => self.on_selected(now, &claim, &version, &reply),
            Then::Evicted { pod } => self.on_evicted(now, &pod, &reply),
            Then::Acknowledge { acks, .. } => out.extend(acks.into_iter().map(super::effects::Ack::action)),
            Then::DecideEnded { end, acks } => {
                let pod = match reply {
                    ApiReply::Pod(pod) => pod,
                    _ => None,
                };
                self.decide_ended(now, *end, acks, pod, out);
            }
            Then::JudgeRival { task_id, agent_id, pod } => {
                let current = match &reply {
                    ApiReply::Pod(pod) => pod.as_deref(),
                    _ => None,
                };
                self.judge_rival(now, (&task_id, &agent_id), &pod, current, out);
            }
            Then::JudgeStrangers => {
                if let ApiReply::Pods(listing) = reply {
                    self.judge_strangers(now, &listing);
                }
            }
            Then::NodeWritten { agent_id } => {
                if matches!(reply, ApiReply::Failed(_))
                    && let Some(agent) = self.agents.get_mut(&agent_id)
                {
                    agent.asked = None;
                    agent.asked_extended = None;
                    agent.asked_taints = None;
                }
            }
        }
    }
}

pub(super) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

pub(super) fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// The UID of the pod's controller.
pub(super) fn owner(pod: &Pod) -> Option<String> {
    let owners = pod.metadata.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone())
}
