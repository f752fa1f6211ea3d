//! The queue of pods that wait for a place.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_placement::{Need, PendingPod};
use km_podtask::{PodKey, Want};

use super::backoff::Backoff;

/// The pods that wait.
#[derive(Default)]
pub(super) struct Queue {
    waiting: BTreeMap<PodKey, Waiting>,
    next_number: u64,
    /// Of pods whose launch failed.
    backoff: Backoff,
    /// Pods that may not wait, with what was told about it.
    pub held: BTreeMap<PodKey, String>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub uid: String,
    pub pending: PendingPod,
    /// The pod as it will be launched.
    pub pod: Arc<Pod>,
    /// Its amounts as Mesos counts them.
    pub want: Want,
    pub since: Duration,
    /// Not placed before this.
    pub not_before: Duration,
    /// What the last attempt ended with, as told to people.
    pub reported: Option<String>,
    /// When an unschedulable pod asks for offers again, and how long it waits then.
    pub retry: Option<Duration>,
    pub pause: Duration,
    /// Since when it wants offers that it hasn't seen.
    pub wants_since: Option<Duration>,
    /// The node where others make room for it.
    pub nominated: Option<String>,
}

impl Queue {
    /// Adds a pod, or renews what is known of one that waits. `not_before` delays only a new one.
    pub fn put(
        &mut self,
        now: Duration,
        key: PodKey,
        uid: String,
        (mut pending, pod, want): (PendingPod, Arc<Pod>, Want),
        not_before: Duration,
    ) {
        match self.waiting.get_mut(&key) {
            Some(known) if known.uid == uid => {
                pending.queued = known.pending.queued;
                known.pending = pending;
                known.pod = pod;
                known.want = want;
            }
            _ => {
                // What a scheduler before us promised.
                let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
                pending.queued = self.next_number;
                self.next_number += 1;
                let waiting = Waiting {
                    uid,
                    pending,
                    pod,
                    want,
                    since: now,
                    not_before,
                    reported: None,
                    retry: None,
                    pause: Duration::ZERO,
                    wants_since: Some(now),
                    nominated,
                };
                self.waiting.insert(key, waiting);
            }
        }
    }

    pub fn remove(&mut self, key: &PodKey) -> Option<Waiting> {
        self.waiting.remove(key)
    }

    /// The pause before the next launch of a pod whose last one failed.
    pub fn penalty(&mut self, now: Duration, key: &PodKey, bounds: (Duration, Duration)) -> Duration {
        self.backoff.next(now, key, bounds)
    }

    /// The pod was bound or deleted: its failures don't count any more.
    pub fn forgive(&mut self, key: &PodKey) {
        self.backoff.forget(key);
    }

    pub fn get(&self, key: &PodKey) -> Option<&Waiting> {
        self.waiting.get(key)
    }

    pub fn get_mut(&mut self, key: &PodKey) -> Option<&mut Waiting> {
        self.waiting.get_mut(key)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PodKey, &Waiting)> {
        self.waiting.iter()
    }

    /// Whether some pod wants offers that it hasn't seen.
    pub fn wants_offers(&self, now: Duration) -> bool {
        self.waiting.values().any(|pod| pod.wants_since.is_some() && pod.not_before <= now)
    }

    /// All unschedulable pods are tried again: something changed that may help them.
    pub fn stir(&mut self, now: Duration) {
        for pod in self.waiting.values_mut() {
            pod.wants_since.get_or_insert(now);
            pod.retry = None;
        }
    }

    /// Some pod changed: unschedulable ones that this may help are tried again at that time at the latest.
    pub fn stir_soon(&mut self, at: Duration, helped: impl Fn(&Need) -> bool) {
        for pod in self.waiting.values_mut().filter(|pod| helped(&pod.pending.need)) {
            pod.retry = pod.retry.map(|retry| retry.min(at));
        }
    }

    /// The pod asks for something else than before.
    pub fn stir_one(&mut self, now: Duration, key: &PodKey) {
        if let Some(pod) = self.waiting.get_mut(key) {
            pod.wants_since.get_or_insert(now);
            pod.retry = None;
        }
    }

    /// Wakes the unschedulable pods whose pause is over; says whether there were any.
    pub fn wake_due(&mut self, now: Duration) -> bool {
        let mut any = false;
        for pod in self.waiting.values_mut().filter(|pod| pod.retry.is_some_and(|retry| retry <= now)) {
            pod.retry = None;
            pod.wants_since = Some(now);
            any = true;
        }
        any
    }

    pub fn next_wakeup(&self, now: Duration) -> Option<Duration> {
        let starts = self.waiting.values().map(|pod| pod.not_before).filter(|start| *start > now);
        self.waiting.values().filter_map(|pod| pod.retry).chain(starts).min()
    }
}
