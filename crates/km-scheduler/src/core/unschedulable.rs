//! What people are told about pods that fit nowhere.

use std::{cmp::Reverse, collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_placement::Summary;
use km_podtask::PodKey;

use super::{Action, Core, EventKind, effects::Then, pods::uid};

/// Why a pod isn't even let into the queue.
pub(super) enum Hold {
    /// It has scheduling gates.
    Gated,
    /// It asks for something that can't be understood.
    Wrong(String),
}

/// What the API server of Kubernetes says about a pod with gates.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

impl Core {
    /// What waits after a round was refused, but for some whose launch failed. Pods are called unschedulable once every
    /// usable agent has shown an offer, or when offers had enough time to come; before that they go on waiting. Costs
    /// nothing before that time.
    pub(super) fn note_refusals(&mut self, now: Duration, failed: &BTreeSet<PodKey>, out: &mut Vec<Action>) {
        let enough = |revived: &Duration| *revived + self.config.offer_wait <= now;
        let revived = self.demand.revived.filter(enough);
        let refused = self.queue.wants_offers(now);
        let complete = refused && self.is_offered_everything();
        if !refused || !complete && revived.is_none() {
            return;
        }
        let mut told: Vec<(Reverse<i32>, u64, PodKey)> = Vec::new();
        for key in self.queue.wanting(now).into_iter().filter(|key| !failed.contains(key)) {
            let Some(waiting) = self.queue.get(&key) else { continue };
            let waited = revived.is_some_and(|revived| waiting.wants_since.is_some_and(|since| revived >= since));
            if complete || waited {
                told.push((Reverse(waiting.pending.need.priority), waiting.pending.queued, key));
            }
        }
        // The most important makes room for itself first.
        told.sort_unstable();
        for (.., key) in told {
            self.note_refusal(now, &key, out);
        }
    }

    fn note_refusal(&mut self, now: Duration, key: &PodKey, out: &mut Vec<Action>) {
        let (first, longest) = self.config.backoff;
        let Some(waiting) = self.queue.get(key) else { return };
        let mut why = Summary::clone(&self.feed.engine.why_not(&waiting.pending));
        why.preemption = self.make_room(key, out);
        let message = why.to_string();
        let mut news = None;
        self.queue.amend(key, |waiting| {
            waiting.wants_since = None;
            waiting.pause = if waiting.pause.is_zero() { first } else { (waiting.pause * 2).min(longest) };
            waiting.retry = Some(now + waiting.pause);
            if waiting.reported.replace(message.clone()).as_ref() != Some(&message) {
                news = Some(waiting.uid.clone());
            }
        });
        let Some(uid) = news else { return };
        out.push(Action::EmitEvent {
            pod: key.clone(),
            uid: uid.clone(),
            kind: EventKind::FailedScheduling,
            message: message.clone(),
        });
        let pod = key.clone();
        let reason = "Unschedulable".to_owned();
        self.effects.start(Then::Nothing, out, |op| Action::PatchPodStatus { op, pod, uid, reason, message });
    }

    /// Says once in the pod's condition why it doesn't wait for a place. Gates are no event.
    pub(super) fn hold_back(&mut self, key: &PodKey, held: &Pod, why: Hold, out: &mut Vec<Action>) {
        let (reason, message) = match &why {
            Hold::Gated => ("SchedulingGated", GATED.to_owned()),
            Hold::Wrong(problem) => ("Unschedulable", format!("The pod can't be placed: {problem}")),
        };
        let conditions = held.status.as_ref().and_then(|status| status.conditions.as_ref());
        let said = conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.reason.as_deref() == Some(reason)
                && condition.message.as_ref() == Some(&message)
        });
        if said || self.queue.held.insert(key.clone(), message.clone()).as_ref() == Some(&message) {
            return;
        }
        let (pod, uid) = (key.clone(), uid(held));
        if let Hold::Wrong(_) = why {
            let (pod, uid, message) = (pod.clone(), uid.clone(), message.clone());
            out.push(Action::EmitEvent { pod, uid, kind: EventKind::FailedScheduling, message });
        }
        let reason = reason.to_owned();
        self.effects.start(Then::Nothing, out, |op| Action::PatchPodStatus { op, pod, uid, reason, message });
    }
}
