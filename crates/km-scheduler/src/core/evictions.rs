//! Pods that are to leave their agent: it can't be reached for longer than they tolerate, or it is to be emptied.
//!
//! The first kind is deleted as Kubernetes' taint manager does it: after the pod's `tolerationSeconds` for the taint
//! `node.kubernetes.io/unreachable`. The second is evicted, so that disruption budgets have their say, again and again
//! as long as the agent is to be emptied.
//!
//! That an agent could not be reached some time ago proves nothing: it may have come back unheard. So when the time of a
//! pod is over the master is asked about its task, and the pod goes with the answer, not before.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use km_kube::pod;
use km_podtask::{PodKey, Task};

use super::{Action, ApiFailure, ApiReply, Core, EventKind, effects::Then, pods::uid, taints::UNREACHABLE};

/// Pause before an eviction that a budget refused is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause before the master is asked again about a task on an unreachable agent.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How long the watch may take to show an eviction.
const SHOWN: Duration = Duration::from_secs(1);
/// Least time between two looks at all tasks.
const LOOKS: Duration = Duration::from_millis(200);

/// The evictions under way, and those that were refused.
#[derive(Default)]
pub(super) struct Evictions {
    tried: BTreeMap<PodKey, Attempt>,
    /// By task id, when the master may be asked again whether its agent is still away.
    asked: BTreeMap<String, Duration>,
    /// When to look again.
    next: Option<Duration>,
    last: Option<Duration>,
    /// Whether some agent is in trouble.
    pub any: bool,
}

struct Attempt {
    uid: String,
    agent_id: String,
    next: Duration,
    under_way: bool,
    refused: Option<String>,
}

impl Evictions {
    /// Something changed that may ask for evictions.
    pub fn stir(&mut self, now: Duration) {
        let soon = self.last.map_or(now, |last| (last + LOOKS).max(now));
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
    }

    pub fn next_wakeup(&self) -> Option<Duration> {
        self.next
    }

    fn not_later(&mut self, time: Duration) {
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
    }
}

/// What is the matter with an agent.
#[derive(Clone, Copy)]
enum Trouble {
    /// Since then, in UNIX time.
    Unreachable(Duration),
    Leave(&'static str),
}

/// What is to be done with a pod.
enum Fate {
    Stays,
    /// At that UNIX time.
    DeletedAt(Duration),
    /// Its deletion was asked for, and its kubelet can't confirm it: it goes at that UNIX time.
    RemovedAt(Duration),
    EvictedNow,
}

impl Core {
    pub(super) fn evict_due(&mut self, now: Duration, out: &mut Vec<Action>) {
        if !self.synced || self.evictions.next.is_none_or(|next| next > now) {
            return;
        }
        self.evictions.next = None;
        self.evictions.last = Some(now);
        let troubles = self.troubles(now);
        self.evictions.any = !troubles.is_empty();
        self.evictions.tried.retain(|_, attempt| attempt.under_way || troubles.contains_key(&attempt.agent_id));
        let on_agents =
            troubles.iter().flat_map(|(agent, trouble)| self.tasks.of_agent(agent).map(|task| (task, *trouble)));
        // Ordered by task.
        let concerned: BTreeMap<String, (Task, Trouble)> = on_agents
            .filter(|(task, _)| task.flags.bound)
            .map(|(task, trouble)| (task.id.clone(), (task.clone(), trouble)))
            .collect();
        self.evictions.asked.retain(|id, _| concerned.contains_key(id));
        let mut questions = Vec::new();
        for (task, trouble) in concerned.into_values() {
            if !self.is_eviction_due(now, &task, trouble) {
                continue;
            }
            match trouble {
                Trouble::Unreachable(_) => questions.extend(self.question(now, &task)),
                Trouble::Leave(_) => self.send_away(now, &task, trouble, out),
            }
        }
        if !questions.is_empty() {
            out.push(Action::Reconcile(questions));
        }
    }

    /// The master says at this moment that a task's agent is away.
    pub(super) fn on_absence(&mut self, now: Duration, task: &Task, out: &mut Vec<Action>) {
        let agent = self.agents.get(&task.agent_id).filter(|agent| agent.lost.is_some());
        let Some(since) = agent.and_then(|agent| agent.unreachable_since) else { return };
        let trouble = Trouble::Unreachable(since);
        if self.synced && task.flags.bound && self.is_eviction_due(now, task, trouble) {
            self.send_away(now, task, trouble, out);
        }
    }

    /// What to ask the master about a task whose pod may not wait for its agent any longer. Without a subscription there
    /// is nobody to ask, and the next one begins with a question about every task.
    fn question(&mut self, now: Duration, task: &Task) -> Option<(String, String)> {
        self.subscribed?;
        let again = self.evictions.asked.get(&task.id).copied().filter(|again| *again > now);
        self.evictions.not_later(again.unwrap_or(now + ASK_AGAIN));
        if again.is_some() {
            return None;
        }
        self.evictions.asked.insert(task.id.clone(), now + ASK_AGAIN);
        Some((task.id.clone(), task.agent_id.clone()))
    }

    fn troubles(&self, now: Duration) -> BTreeMap<String, Trouble> {
        let (unix, lead) = (self.unix(now), self.config.maintenance_lead);
        let troubled = self.agents.all().filter_map(|agent| {
            let trouble = match agent.unreachable_since.filter(|_| agent.lost.is_some()) {
                Some(since) => Trouble::Unreachable(since),
                None if agent.upkeep.evacuates(unix, lead) => Trouble::Leave(agent.upkeep.reason(unix, lead)?),
                None => return None,
            };
            Some((agent.id.clone(), trouble))
        });
        troubled.collect()
    }

    /// Whether the pod of a task must leave now. If later, it is looked at again then.
    fn is_eviction_due(&mut self, now: Duration, task: &Task, trouble: Trouble) -> bool {
        let Some(pod) = self.pods.get(&task.pod) else { return false };
        let tried = self.evictions.tried.get(&task.pod).filter(|attempt| attempt.uid == uid(pod));
        if tried.is_some_and(|attempt| attempt.under_way) {
            return false;
        }
        let start = self.config.unix_start;
        let at = match fate(pod, trouble) {
            Fate::Stays => return false,
            Fate::EvictedNow => now,
            Fate::DeletedAt(unix) | Fate::RemovedAt(unix) => unix.saturating_sub(start),
        };
        let at = tried.map_or(at, |attempt| attempt.next.max(at));
        if at > now {
            self.evictions.not_later(at);
        }
        at <= now
    }

    fn send_away(&mut self, now: Duration, task: &Task, trouble: Trouble, out: &mut Vec<Action>) {
        let Some(pod) = self.pods.get(&task.pod).cloned() else { return };
        let (key, uid) = (task.pod.clone(), uid(&pod));
        let removed = matches!(fate(&pod, trouble), Fate::RemovedAt(_));
        let attempt =
            Attempt { uid: uid.clone(), agent_id: task.agent_id.clone(), next: now, under_way: true, refused: None };
        let first = self.evictions.tried.insert(key.clone(), attempt).is_none();
        let budgets = matches!(trouble, Trouble::Leave(_));
        if first && !removed {
            let message = match trouble {
                Trouble::Unreachable(_) => "The agent is unreachable for longer than the pod tolerates".to_owned(),
                Trouble::Leave(reason) => format!("The agent is to be emptied ({reason})"),
            };
            out.push(Action::EmitEvent { pod: key.clone(), uid: uid.clone(), kind: EventKind::Eviction, message });
        }
        let then = Then::Evicted { pod: key.clone() };
        self.effects.start(then, out, |op| {
            if removed {
                Action::DeletePod { op, pod: key, uid }
            } else {
                Action::EvictPod { op, pod: key, uid, budgets }
            }
        });
    }

    /// An eviction was answered.
    pub(super) fn on_evicted(&mut self, now: Duration, key: &PodKey, reply: &ApiReply) {
        let Some(attempt) = self.evictions.tried.get_mut(key) else { return };
        attempt.under_way = false;
        attempt.refused = match reply {
            ApiReply::Failed(ApiFailure::Refused(reason)) => Some(reason.clone()),
            _ => None,
        };
        attempt.next = now + if matches!(reply, ApiReply::Failed(_)) { PAUSE } else { SHOWN };
        if let Some(reason) = &attempt.refused {
            tracing::info!(pod = %key, agent = attempt.agent_id, reason, "the pod may not be evicted yet");
        }
        let next = attempt.next;
        self.evictions.not_later(next);
    }

    /// A pod of the agent that a disruption budget keeps there, and what the API server said about it.
    pub(super) fn kept_by_budget(&self, agent: &str) -> Option<(&PodKey, &str)> {
        let tried = self.tasks.of_agent(agent).filter_map(|task| self.evictions.tried.get_key_value(&task.pod));
        let kept = tried.filter(|(_, attempt)| attempt.agent_id == agent);
        kept.filter_map(|(key, attempt)| Some((key, attempt.refused.as_deref()?))).min()
    }
}

fn fate(pod: &Pod, trouble: Trouble) -> Fate {
    if pod::is_mirror(pod) || pod::is_terminal(pod) {
        return Fate::Stays;
    }
    let owned_by = |kind: &str| {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners.filter(|owner| owner.controller == Some(true)).any(|owner| owner.kind == kind)
    };
    match (trouble, &pod.metadata.deletion_timestamp) {
        (Trouble::Leave(_), Some(_)) => Fate::Stays,
        // Its controller would put it there again.
        (Trouble::Leave(_), None) if owned_by("DaemonSet") => Fate::Stays,
        (Trouble::Leave(_), None) => Fate::EvictedNow,
        // Two pods of one identity must never run: this one may still do so.
        (Trouble::Unreachable(_), Some(_)) if owned_by("StatefulSet") => Fate::Stays,
        (Trouble::Unreachable(since), Some(deletion)) => {
            let seconds = u64::try_from(deletion.0.as_second()).unwrap_or(0);
            Fate::RemovedAt(Duration::from_secs(seconds).max(since))
        }
        (Trouble::Unreachable(since), None) => match pod.spec.as_ref().map_or(Some(Duration::ZERO), patience) {
            Some(patience) => Fate::DeletedAt(since.saturating_add(patience)),
            None => Fate::Stays,
        },
    }
}

/// How long a pod tolerates an unreachable node; none: for ever. Of several tolerations the shortest counts, as with
/// Kubernetes' taint manager.
fn patience(spec: &PodSpec) -> Option<Duration> {
    let matching = spec.tolerations.iter().flatten().filter(|toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        let value = toleration.value.as_deref().unwrap_or_default();
        (key == UNREACHABLE && (exists || value.is_empty()) || key.is_empty() && exists)
            && matches!(toleration.effect.as_deref().unwrap_or_default(), "" | "NoExecute")
    });
    let times: Vec<Option<i64>> = matching.map(|toleration| toleration.toleration_seconds).collect();
    if times.is_empty() {
        return Some(Duration::ZERO);
    }
    times.into_iter().flatten().min().map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}
