//! Operations on the API server that somebody waits for: their retries and what follows from their end.

use std::{collections::BTreeMap, time::Duration};

use km_podtask::{PodKey, Task};

use super::action::Action;

/// Names an operation between action and answer.
pub type OpId = u64;

/// An acknowledgement that waits for an effect to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub task_id: String,
    pub agent_id: String,
    pub uuid: Vec<u8>,
}

impl Ack {
    pub fn action(self) -> Action {
        Action::Acknowledge { task_id: self.task_id, agent_id: self.agent_id, uuid: self.uuid }
    }
}

/// What follows when an operation ended.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Nothing,
    /// Send this acknowledgement, if the update wants one.
    Acknowledge(Option<Ack>),
    /// The task ended before we saw its pod bound: decide on the pod as the API server has it.
    DecideEnded {
        task: Box<Task>,
        ack: Option<Ack>,
        message: String,
    },
    /// Strangers may be judged by the listing.
    JudgeStrangers,
    /// A stranger and a task of ours claim the same pod: the API server's view of it decides.
    JudgeRival {
        task_id: String,
        agent_id: String,
        pod: PodKey,
    },
    /// A node was created or patched.
    NodeWritten {
        agent_id: String,
    },
}

/// The operations under way.
#[derive(Default)]
pub(super) struct Effects {
    next: OpId,
    open: BTreeMap<OpId, (Action, Then)>,
    retries: BTreeMap<OpId, Duration>,
}

/// Pause before an operation that found no API server is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Effects {
    /// Starts an operation: `action` gets its id.
    pub fn start(&mut self, then: Then, out: &mut Vec<Action>, action: impl FnOnce(OpId) -> Action) {
        let op = self.next;
        self.next += 1;
        let action = action(op);
        out.push(action.clone());
        self.open.insert(op, (action, then));
    }

    /// Ends an operation.
    pub fn finish(&mut self, op: OpId) -> Option<Then> {
        self.retries.remove(&op);
        self.open.remove(&op).map(|(_, then)| then)
    }

    /// Does it again a little later.
    pub fn retry_later(&mut self, now: Duration, op: OpId) {
        if self.open.contains_key(&op) {
            self.retries.insert(op, now + RETRY_PAUSE);
        }
    }

    pub fn retry_due(&mut self, now: Duration, out: &mut Vec<Action>) {
        let due: Vec<OpId> = self.retries.iter().filter(|(_, at)| **at <= now).map(|(op, _)| *op).collect();
        for op in due {
            self.retries.remove(&op);
            out.extend(self.open.get(&op).map(|(action, _)| action.clone()));
        }
    }

    pub fn next_retry(&self) -> Option<Duration> {
        self.retries.values().min().copied()
    }

    /// Whether an update's effect is under way already, so that its repetition needs nothing.
    pub fn awaits(&self, task_id: &str, uuid: &[u8]) -> bool {
        self.open.values().any(|(_, then)| {
            let ack = match then {
                Then::Acknowledge(ack) | Then::DecideEnded { ack, .. } => ack.as_ref(),
                Then::Nothing | Then::JudgeStrangers | Then::JudgeRival { .. } | Then::NodeWritten { .. } => None,
            };
            ack.is_some_and(|ack| ack.task_id == task_id && ack.uuid == uuid)
        })
    }

    /// Whether it is being found out if this stranger has the pod.
    pub fn judging(&self, id: &str) -> bool {
        self.open.values().any(|(_, then)| matches!(then, Then::JudgeRival { task_id, .. } if task_id == id))
    }

    /// Whether the end of this task is being decided.
    pub fn deciding(&self, task_id: &str) -> bool {
        self.open.values().any(|(_, then)| matches!(then, Then::DecideEnded { task, .. } if task.id == task_id))
    }

    /// Whether the end of a task of this pod is being decided.
    pub fn deciding_pod(&self, pod: &PodKey) -> bool {
        self.open.values().any(|(_, then)| matches!(then, Then::DecideEnded { task, .. } if task.pod == *pod))
    }
}
