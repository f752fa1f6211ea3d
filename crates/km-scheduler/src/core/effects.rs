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

/// A task that ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub task: Task,
    /// The phase its pod is to have, when it ended by itself; none when it was lost.
    pub phase: Option<&'static str>,
    pub message: String,
}

/// What follows when an operation ended.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Nothing,
    /// The end of a task is written: send the acknowledgements of the updates that told it.
    Acknowledge {
        task_id: String,
        acks: Vec<Ack>,
    },
    /// A task ended: decide on its pod as the API server has it.
    DecideEnded {
        end: Box<Ended>,
        acks: Vec<Ack>,
    },
    /// Strangers may be judged by the listing.
    JudgeStrangers,
    /// A stranger and a task of ours claim the same pod: the API server's view of it decides.
    JudgeRival {
        task_id: String,
        agent_id: String,
        pod: PodKey,
    },
    /// A pod was asked to leave.
    Evicted {
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

    /// Whether an operation that found no API server is tried again as it is. An eviction isn't: until then its reason
    /// may be gone.
    pub fn is_repeated(&self, op: OpId) -> bool {
        self.open.get(&op).is_some_and(|(_, then)| !matches!(then, Then::Evicted { .. }))
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

    /// When the end of this task is being written already, an update about it has nothing to add: it is acknowledged
    /// with the others. Says whether that is so.
    pub fn join(&mut self, id: &str, ack: Option<&Ack>) -> bool {
        let of_task = self.open.values_mut().find_map(|(_, then)| match then {
            Then::Acknowledge { task_id, acks } if task_id == id => Some(acks),
            Then::DecideEnded { end, acks } if end.task.id == id => Some(acks),
            _ => None,
        });
        let Some(acks) = of_task else { return false };
        if let Some(ack) = ack.filter(|ack| !acks.contains(ack)) {
            acks.push(ack.clone());
        }
        true
    }

    /// Whether it is being found out if this stranger has the pod.
    pub fn judging(&self, id: &str) -> bool {
        self.open.values().any(|(_, then)| matches!(then, Then::JudgeRival { task_id, .. } if task_id == id))
    }

    /// Whether the end of a task of this pod is being decided.
    pub fn deciding_pod(&self, pod: &PodKey) -> bool {
        self.open.values().any(|(_, then)| matches!(then, Then::DecideEnded { end, .. } if end.task.pod == *pod))
    }
}
