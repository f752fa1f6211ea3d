//! Operations on the API server that somebody waits for: their retries and what follows from their end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_podtask::{PodKey, Task};

use super::{action::Action, timetable::Timetable};

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
    /// A volume of that resource version was reserved for a claim.
    Reserved {
        volume: String,
        version: String,
    },
    /// A claim of that resource version was told its node.
    Selected {
        claim: PodKey,
        version: String,
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
    retries: Timetable<OpId>,
    /// The open operations by what they are about.
    about: BTreeSet<(About, OpId)>,
}

/// What others ask about operations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    /// The end of this task is written or decided.
    End(String),
    /// The end of a task of this pod is decided.
    Decision(PodKey),
    /// Whose pod it is, this stranger's or ours.
    Rival(String),
}

impl Then {
    fn about(&self) -> Vec<About> {
        match self {
            Self::Acknowledge { task_id, .. } => vec![About::End(task_id.clone())],
            Self::DecideEnded { end, .. } => {
                vec![About::End(end.task.id.clone()), About::Decision(end.task.pod.clone())]
            }
            Self::JudgeRival { task_id, .. } => vec![About::Rival(task_id.clone())],
            _ => Vec::new(),
        }
    }
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
        self.about.extend(then.about().into_iter().map(|about| (about, op)));
        self.open.insert(op, (action, then));
    }

    /// Ends an operation.
    pub fn finish(&mut self, op: OpId) -> Option<Then> {
        self.retries.set(&op, None);
        let (_, then) = self.open.remove(&op)?;
        for about in then.about() {
            self.about.remove(&(about, op));
        }
        Some(then)
    }

    /// Whether an operation that found no API server is tried again as it is. An eviction isn't: until then its reason
    /// may be gone.
    pub fn is_repeated(&self, op: OpId) -> bool {
        self.open.get(&op).is_some_and(|(_, then)| !matches!(then, Then::Evicted { .. }))
    }

    /// Does it again a little later.
    pub fn retry_later(&mut self, now: Duration, op: OpId) {
        if self.open.contains_key(&op) {
            self.retries.set(&op, Some(now + RETRY_PAUSE));
        }
    }

    pub fn retry_due(&mut self, now: Duration, out: &mut Vec<Action>) {
        for op in self.retries.due(now) {
            self.retries.set(&op, None);
            out.extend(self.open.get(&op).map(|(action, _)| action.clone()));
        }
    }

    pub fn next_retry(&self) -> Option<Duration> {
        self.retries.first()
    }

    /// When the end of this task is being written already, an update about it has nothing to add: it is acknowledged
    /// with the others. Says whether that is so.
    pub fn join(&mut self, id: &str, ack: Option<&Ack>) -> bool {
        let op = self.first(About::End(id.to_owned()));
        let of_task = op.and_then(|op| self.open.get_mut(&op)).and_then(|(_, then)| match then {
            Then::Acknowledge { acks, .. } | Then::DecideEnded { acks, .. } => Some(acks),
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
        self.first(About::Rival(id.to_owned())).is_some()
    }

    /// Whether the end of a task of this pod is being decided.
    pub fn deciding_pod(&self, pod: &PodKey) -> bool {
        self.first(About::Decision(pod.clone())).is_some()
    }

    /// The oldest open operation about something.
    fn first(&self, about: About) -> Option<OpId> {
        let (found, op) = self.about.range((about.clone(), OpId::MIN)..).next()?;
        (*found == about).then_some(*op)
    }

    /// Panics unless the index says what the operations say.
    pub fn check_index(&self) {
        let about = self.open.iter().flat_map(|(op, (_, then))| then.about().into_iter().map(|about| (about, *op)));
        assert_eq!(self.about, about.collect::<BTreeSet<_>>(), "what operations are about");
    }
}
