//! Status updates: what became of tasks.
//!
//! An update with a uuid is acknowledged once all that follows from it is durable in the API server; until then Mesos
//! repeats it, also to the scheduler that comes after us.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_kube::{keys, pod};
use km_mesos_proto::v1::{TaskState, TaskStatus, task_status::Source};
use km_podtask::{State, Task};

use super::{
    Action, Core, EventKind, Timing,
    effects::{Ack, Ended, Then},
    pods::{annotation, uid},
};

/// Messages with which the executor says that it lost a pod, rather than that the pod failed.
const EXECUTOR_LOST_POD: [&str; 2] = ["containers-disappeared", "kubelet-pod-launch-failed"];

/// How a task ended.
enum Ending {
    /// By itself; the pod tells how and stays.
    Own(&'static str),
    /// By the loss of what it ran on, or because it was killed: the pod can't go on.
    Lost,
}

impl Core {
    pub(super) fn on_update(&mut self, now: Duration, status: &TaskStatus, out: &mut Vec<Action>) {
        if !self.synced {
            // Not acknowledged, so Mesos repeats it.
            return;
        }
        let id = status.task_id.value.as_str();
        let ack = acknowledgement(status);
        if self.effects.join(id, ack.as_ref()) {
            return;
        }
        let Ok(state) = TaskState::try_from(status.state) else {
            tracing::error!(task = id, state = status.state, "status update with an unknown state");
            return;
        };
        tracing::debug!(task = id, ?state, message = status.message, "status update");
        self.reconciler.heard(id);
        if is_alive(state)
            && let Some(agent) = &status.agent_id
        {
            self.agent_is_back(now, &agent.value, out);
        }
        if self.tasks.get(id).is_none() {
            self.on_stranger(now, status, state, ack, out);
            return;
        }
        let known = self.tasks.get(id).is_some_and(|task| self.launched_here(task));
        let state = match state {
            TaskState::TaskUnknown if known => TaskState::TaskGone,
            TaskState::TaskUnknown => self.believe_unknown(now),
            state => state,
        };
        self.apply_update(now, status, state, ack, out);
    }

    /// What follows from the state of a task of ours.
    fn apply_update(
        &mut self,
        now: Duration,
        status: &TaskStatus,
        state: TaskState,
        ack: Option<Ack>,
        out: &mut Vec<Action>,
    ) {
        let id = status.task_id.value.as_str();
        let transition = self.tasks.update_status(now, id, state);
        let Some(task) = transition.task else { return };
        if state == TaskState::TaskUnreachable {
            out.extend(ack.map(Ack::action));
            self.agent_unreachable(now, &task.agent_id, &task.hostname, out);
            self.on_absence(now, &task, out);
            return;
        }
        if transition.newly_bound {
            self.queue.forgive(&task.pod);
            self.announce_binding(id, out);
        }
        self.note_refused_launch(now, status, state, &task.agent_id);
        if state == TaskState::TaskFailed {
            self.note_taken_port(now, &task, status.message.as_deref().unwrap_or_default());
        }
        let ending = match state {
            TaskState::TaskFinished => Some(Ending::Own("Succeeded")),
            TaskState::TaskFailed if is_own_failure(status, &task) => Some(Ending::Own("Failed")),
            _ if transition.removed => Some(Ending::Lost),
            _ => None,
        };
        // A task that has ended before has nothing more to say.
        match ending.filter(|_| transition.before != Some(State::Finished)) {
            Some(ending) => {
                self.kills.remove(id);
                self.end(
                    now,
                    Arc::unwrap_or_clone(task),
                    &ending,
                    (status.message.as_deref().unwrap_or_default(), ack),
                    out,
                );
                self.demand.touch(now);
            }
            None => out.extend(ack.map(Ack::action)),
        }
    }

    /// The end of a task that nobody reports, but that follows from something else.
    pub(super) fn conclude(&mut self, now: Duration, id: &str, state: TaskState, why: &str, out: &mut Vec<Action>) {
        let status = TaskStatus { task_id: id.into(), message: Some(why.to_owned()), ..TaskStatus::default() };
        self.apply_update(now, &status, state, None, out);
    }

    /// A master that doesn't know a task after a fail-over may hear of it when its agent comes back. Only after the
    /// grace period that is the end of it.
    pub(super) fn believe_unknown(&self, now: Duration) -> TaskState {
        let believed = self.subscribed.is_some_and(|since| since + self.config.unknown_grace <= now);
        if believed { TaskState::TaskGone } else { TaskState::TaskUnknown }
    }

    /// Whether a launch went to the very master that we are subscribed to now, and was never heard of. That master knows
    /// all tasks that it ever took from us since, so if it doesn't know this one, the launch was lost.
    fn launched_here(&self, task: &Task) -> bool {
        let since = self.subscribed.zip(task.launched).is_some_and(|(subscribed, launched)| launched >= subscribed);
        since && task.updated.is_none() && !task.flags.bound
    }

    /// Update or watch, whichever is first, tells that the executor bound the pod.
    pub(super) fn announce_binding(&self, task_id: &str, out: &mut Vec<Action>) {
        let Some(task) = self.tasks.get(task_id) else { return };
        let message = format!("Successfully assigned {} to {}", task.pod, task.hostname);
        let (pod, uid) = (task.pod.clone(), task.pod_uid.clone());
        out.push(Action::EmitEvent { pod, uid, kind: EventKind::Scheduled, message });
        if let (Some(launched), Some(bound)) = (task.launched, task.bound) {
            out.push(Action::Observe(Timing::BindLatency(bound.saturating_sub(launched))));
            out.push(Action::Observe(Timing::Scheduling(bound.saturating_sub(task.created))));
        }
    }

    /// Makes the end of a task durable in the API server, and then acknowledges it.
    fn end(
        &mut self,
        now: Duration,
        task: Task,
        ending: &Ending,
        (message, ack): (&str, Option<Ack>),
        out: &mut Vec<Action>,
    ) {
        let known = self.pods.get(&task.pod).filter(|pod| uid(pod) == task.pod_uid);
        let Some(known) = known else {
            // The pod's deletion was seen: there is nothing to write.
            out.extend(ack.map(Ack::action));
            self.let_successor_in(now, &task, out);
            return;
        };
        if pod::is_terminal(known) {
            out.extend(ack.map(Ack::action));
            return;
        }
        // The executor writes the pod's end before it reports the task's. Our copy may be older than both, so the API
        // server is asked what it has now.
        let (pod, uid) = (task.pod.clone(), task.pod_uid.clone());
        let phase = match ending {
            Ending::Own(phase) => Some(*phase),
            Ending::Lost => None,
        };
        let end = Ended { task, phase, message: message.to_owned() };
        let acks = ack.into_iter().collect();
        let then = Then::DecideEnded { end: Box::new(end), acks };
        self.effects.start(then, out, |op| Action::FetchPod { op, pod, uid });
    }

    /// A pod of the same name that came before the old one's task had ended was not let into the queue.
    pub(super) fn let_successor_in(&mut self, now: Duration, old: &Task, out: &mut Vec<Action>) {
        let successor = self.pods.get(&old.pod).filter(|pod| uid(pod) != old.pod_uid).cloned();
        if let Some(pod) = successor {
            self.on_pod(now, pod, out);
        }
    }

    fn delete_lost(&mut self, task: Task, message: &str, acks: Vec<Ack>, out: &mut Vec<Action>) {
        let (pod, uid) = (task.pod, task.pod_uid);
        if !task.flags.deleted {
            let message = if message.is_empty() { "Mesos lost the task of the pod" } else { message }.to_owned();
            out.push(Action::EmitEvent { pod: pod.clone(), uid: uid.clone(), kind: EventKind::TaskLost, message });
        }
        let then = Then::Acknowledge { task_id: task.id, acks };
        self.effects.start(then, out, |op| Action::DeletePod { op, pod, uid });
    }

    /// A task ended: `current` is its pod as the API server has it (none: it is deleted).
    pub(super) fn decide_ended(
        &mut self,
        now: Duration,
        end: Ended,
        acks: Vec<Ack>,
        current: Option<Arc<Pod>>,
        out: &mut Vec<Action>,
    ) {
        let Ended { task, phase, message } = end;
        let done = |out: &mut Vec<Action>| out.extend(acks.clone().into_iter().map(Ack::action));
        let Some(current) = current.filter(|pod| uid(pod) == task.pod_uid && !pod::is_terminal(pod)) else {
            done(out);
            self.let_successor_in(now, &task, out);
            return;
        };
        if is_bound(&current, &task.id) {
            match phase {
                Some(phase) => {
                    let (pod, uid) = (task.pod, task.pod_uid);
                    let then = Then::Acknowledge { task_id: task.id, acks };
                    self.effects.start(then, out, |op| Action::EndPod { op, pod, uid, phase, message });
                }
                None => self.delete_lost(task, &message, acks, out),
            }
            return;
        }
        done(out);
        let other_task = annotation(&current, keys::TASK_ID).is_some_and(|other| other != task.id);
        if other_task || self.tasks.of_pod(&task.pod).is_some() || pod::is_deleting(&current) {
            return;
        }
        tracing::info!(pod = %task.pod, task = task.id, message, "the task ended before its pod was bound: it waits again");
        let why = if message.is_empty() { "no reason given".to_owned() } else { message };
        out.push(Action::EmitEvent {
            pod: task.pod.clone(),
            uid: task.pod_uid,
            kind: EventKind::FailedScheduling,
            message: format!("The launch on {} failed: {why}", task.hostname),
        });
        // Not at once: what made it fail may do so again.
        let pause = self.queue.penalty(now, &task.pod, self.config.backoff);
        self.requeue(now, &current, pause, out);
    }
}

/// Whether the task exists on an agent in contact with the master.
pub(super) fn is_alive(state: TaskState) -> bool {
    use TaskState::{TaskKilling, TaskRunning, TaskStaging, TaskStarting};
    matches!(state, TaskStaging | TaskStarting | TaskRunning | TaskKilling)
}

/// Whether the API server's pod was bound by that task.
fn is_bound(pod: &Pod, task_id: &str) -> bool {
    pod::is_scheduled(pod) && annotation(pod, keys::TASK_ID) == Some(task_id)
}

/// Whether the executor reports that a bound pod failed, as opposed to the executor or agent failing.
fn is_own_failure(status: &TaskStatus, task: &Task) -> bool {
    let message = status.message.as_deref().unwrap_or_default();
    status.source == Some(Source::Executor as i32)
        && task.flags.bound
        && !EXECUTOR_LOST_POD.iter().any(|lost| message.starts_with(lost))
}

/// Updates without uuid are never acknowledged.
fn acknowledgement(status: &TaskStatus) -> Option<Ack> {
    let uuid = status.uuid.clone().filter(|uuid| !uuid.is_empty())?;
    let agent_id = status.agent_id.as_ref()?.value.clone();
    Some(Ack { task_id: status.task_id.value.clone(), agent_id, uuid })
}
