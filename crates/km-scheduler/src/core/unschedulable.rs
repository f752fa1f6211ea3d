//! What people are told about pods that fit nowhere.

use std::time::Duration;

use km_placement::Summary;
use km_podtask::PodKey;

use super::{Action, Core, EventKind, effects::Then};

impl Core {
    /// A pod was refused in a round. It is called unschedulable once every usable agent has shown an offer, or when
    /// offers had enough time to come; before that it goes on waiting.
    pub(super) fn note_refusal(
        &mut self,
        now: Duration,
        key: &PodKey,
        why: &Summary,
        complete: bool,
        out: &mut Vec<Action>,
    ) {
        let wait = self.config.offer_wait;
        let revived = self.demand.revived;
        let (first, longest) = self.config.backoff;
        let Some(waiting) = self.queue.get_mut(key) else { return };
        let Some(wants_since) = waiting.wants_since else { return };
        let waited = revived.is_some_and(|revived| revived >= wants_since && revived + wait <= now);
        if !complete && !waited {
            return;
        }
        waiting.wants_since = None;
        waiting.pause = if waiting.pause.is_zero() { first } else { (waiting.pause * 2).min(longest) };
        waiting.retry = Some(now + waiting.pause);
        let message = why.to_string();
        if waiting.reported.as_ref() == Some(&message) {
            return;
        }
        waiting.reported = Some(message.clone());
        let uid = waiting.uid.clone();
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
}
