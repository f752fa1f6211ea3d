//! Preemption: less important pods are deleted for one that fits nowhere.

use std::{collections::BTreeMap, time::Duration};

use km_podtask::PodKey;

use super::{Action, Core, EventKind, effects::Then, pods::uid};

impl Core {
    /// Deletes less important pods if that makes room for a refused one. Otherwise says why nobody was.
    pub(super) fn make_room(&mut self, key: &PodKey, out: &mut Vec<Action>) -> Option<String> {
        let waiting = self.queue.get(key)?;
        let (pending, pod_uid) = (waiting.pending.clone(), waiting.uid.clone());
        let preemption = match self.feed.engine.preempt(&pending) {
            Ok(preemption) => preemption,
            Err(why) => return Some(why),
        };
        tracing::info!(%key, node = preemption.node, victims = ?preemption.victims, "others make room for the pod");
        self.nominate(key, Some(preemption.node.clone()), out);
        for other in preemption.outranked.iter().filter_map(|id| by_id(id)) {
            self.nominate(&other, None, out);
        }
        for victim in preemption.victims.iter().filter_map(|id| by_id(id)) {
            self.evict(victim, &pod_uid, &preemption.node, out);
        }
        None
    }

    fn nominate(&mut self, key: &PodKey, node: Option<String>, out: &mut Vec<Action>) {
        let Some(waiting) = self.queue.get(key).filter(|waiting| waiting.nominated != node) else { return };
        let (pod, uid) = (key.clone(), waiting.uid.clone());
        self.queue.amend(key, |waiting| {
            waiting.nominated.clone_from(&node);
            if node.is_some() {
                // The victims' end is worth looking for soon.
                waiting.pause = Duration::ZERO;
            }
        });
        self.effects.start(Then::Nothing, out, |op| Action::NominatePod { op, pod, uid, node });
    }

    /// A victim that waits for its own launch to arrive is deleted, too: its task is killed when that is seen.
    fn evict(&mut self, victim: PodKey, by: &str, node: &str, out: &mut Vec<Action>) {
        let Some(known) = self.pods.get(&victim) else { return };
        let pod_uid = uid(known);
        self.feed.victims.insert(victim.clone(), pod_uid.clone());
        let message = format!("Preempted by pod {by} on node {node}");
        let kind = EventKind::Preempted;
        out.push(Action::EmitEvent { pod: victim.clone(), uid: pod_uid.clone(), kind, message });
        let message = "default-scheduler: preempting to accommodate a higher priority pod".to_owned();
        let (pod, uid) = (victim, pod_uid);
        self.effects.start(Then::Nothing, out, |op| Action::PreemptPod { op, pod, uid, message });
    }

    /// A namespace's labels are looked at by pod affinity.
    pub(super) fn on_namespace(&mut self, now: Duration, name: &str, labels: BTreeMap<String, String>) {
        self.feed.engine.set_namespace(name, Some(labels));
        self.queue.stir(now);
    }
}

/// The engine names pods by namespace and name.
pub(super) fn by_id(id: &str) -> Option<PodKey> {
    id.split_once('/').map(|(namespace, name)| PodKey::new(namespace, name))
}
