//! The queue of pods that wait for a place.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use km_placement::{Need, PendingPod};
use km_podtask::{PodKey, Want};

use super::{
    backoff::Backoff,
    lines::{Front, Lines},
    timetable::Timetable,
};

/// The pods that wait.
#[derive(Default)]
pub(super) struct Queue {
    waiting: BTreeMap<PodKey, Waiting>,
    index: Index,
    lines: Lines,
    next_number: u64,
    /// Of pods whose launch failed.
    backoff: Backoff,
    /// Pods that may not wait, with what was told about it.
    pub held: BTreeMap<PodKey, String>,
}

/// The waiting pods by time. It follows from the pods alone, and is renewed with each one.
#[derive(Default)]
struct Index {
    /// Since when those that want offers may be placed.
    wanting: Timetable<PodKey>,
    /// When those that had to pause may be placed for the first time.
    starts: Timetable<PodKey>,
    /// When unschedulable ones are tried again.
    retries: Timetable<PodKey>,
    /// The same of those for whom other pods matter.
    curious: Timetable<PodKey>,
}

impl Index {
    fn note(&mut self, key: &PodKey, pod: Option<&Waiting>) {
        let retry = pod.and_then(|pod| pod.retry);
        self.wanting.set(key, pod.and_then(Waiting::wants_from));
        self.starts.set(key, pod.map(|pod| pod.not_before).filter(|start| pod.is_some_and(|pod| *start > pod.since)));
        self.retries.set(key, retry);
        self.curious.set(key, retry.filter(|_| pod.is_some_and(|pod| pod.pending.need.looks_around())));
    }
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
    /// Whether it waits for its claims to be bound, which was begun.
    pub binding: bool,
}

impl Waiting {
    /// Since when it wants offers and may be placed.
    fn wants_from(&self) -> Option<Duration> {
        self.wants_since.map(|since| since.max(self.not_before))
    }
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
                self.lines.remove(&known.pending);
                self.lines.add(&key, &pending, known.nominated.is_some());
                known.pending = pending;
                known.pod = pod;
                known.want = want;
            }
            known => {
                if let Some(earlier) = known {
                    self.lines.remove(&earlier.pending);
                }
                // What a scheduler before us promised.
                let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
                pending.queued = self.next_number;
                self.next_number += 1;
                self.lines.add(&key, &pending, nominated.is_some());
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
                    binding: false,
                };
                self.waiting.insert(key.clone(), waiting);
            }
        }
        self.index.note(&key, self.waiting.get(&key));
    }

    pub fn remove(&mut self, key: &PodKey) -> Option<Waiting> {
        let removed = self.waiting.remove(key)?;
        self.lines.remove(&removed.pending);
        self.index.note(key, None);
        Some(removed)
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

    /// Changes what is known of a pod, if it waits.
    pub fn amend(&mut self, key: &PodKey, change: impl FnOnce(&mut Waiting)) {
        if let Some(pod) = self.waiting.get_mut(key) {
            let promised = pod.nominated.is_some();
            change(pod);
            self.index.note(key, Some(pod));
            if promised != pod.nominated.is_some() {
                self.lines.add(key, &pod.pending, !promised);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PodKey, &Waiting)> {
        self.waiting.iter()
    }

    /// All in the order in which they are placed.
    pub fn front(&self) -> Front<'_> {
        self.lines.front()
    }

    /// The pods with claims, in no order. Costs the number of lines besides.
    pub fn with_claims(&self) -> impl Iterator<Item = (&PodKey, &Waiting)> {
        self.lines.pods_with(Need::has_claims).filter_map(|key| self.waiting.get_key_value(key))
    }

    /// The pods that want offers that they haven't seen.
    pub fn wanting(&self, now: Duration) -> Vec<PodKey> {
        self.index.wanting.due(now)
    }

    /// Whether some pod wants offers that it hasn't seen.
    pub fn wants_offers(&self, now: Duration) -> bool {
        self.index.wanting.first().is_some_and(|from| from <= now)
    }

    /// Whether some pod began to want offers after that time; none stands for never.
    pub fn wants_since(&self, time: Option<Duration>, now: Duration) -> bool {
        let wanting = &self.index.wanting;
        let first = time.map_or_else(|| wanting.first(), |time| wanting.first_after(time));
        first.is_some_and(|from| from <= now)
    }

    /// All unschedulable pods are tried again: something changed that may help them.
    pub fn stir(&mut self, now: Duration) {
        let keys: Vec<PodKey> = self.index.retries.times().keys().cloned().collect();
        for key in keys {
            self.stir_one(now, &key);
        }
    }

    /// Some pod changed, or (with `gone`) made room: unschedulable ones that this may help are tried again at that time
    /// at the latest.
    pub fn stir_soon(&mut self, at: Duration, gone: bool) {
        let helped = if gone { &self.index.retries } else { &self.index.curious };
        for key in helped.later(at) {
            self.amend(&key, |pod| pod.retry = Some(at));
        }
    }

    /// The pod asks for something else than before, or may find a place now.
    pub fn stir_one(&mut self, now: Duration, key: &PodKey) {
        self.amend(key, |pod| {
            pod.wants_since.get_or_insert(now);
            pod.retry = None;
        });
    }

    /// Wakes the unschedulable pods whose pause is over.
    pub fn wake_due(&mut self, now: Duration) {
        for key in self.index.retries.due(now) {
            self.amend(&key, |pod| {
                pod.retry = None;
                pod.wants_since = Some(now);
            });
        }
    }

    /// When a pod may be placed that may not now.
    pub fn next_wakeup(&self, now: Duration) -> Option<Duration> {
        let times = [self.index.retries.first(), self.index.starts.first_after(now)];
        times.into_iter().flatten().min()
    }

    /// Panics unless the index says what the pods say.
    pub fn check_index(&self) {
        let times = |of: &dyn Fn(&Waiting) -> Option<Duration>| -> BTreeMap<PodKey, Duration> {
            self.waiting.iter().filter_map(|(key, pod)| Some((key.clone(), of(pod)?))).collect()
        };
        let starts = times(&|pod| Some(pod.not_before).filter(|start| *start > pod.since));
        let curious = times(&|pod| pod.retry.filter(|_| pod.pending.need.looks_around()));
        assert_eq!(*self.index.wanting.times(), times(&Waiting::wants_from), "pods that want offers");
        assert_eq!(*self.index.starts.times(), starts, "pods that start later");
        assert_eq!(*self.index.retries.times(), times(&|pod| pod.retry), "pods that are tried again");
        assert_eq!(*self.index.curious.times(), curious, "pods that mind others");
        let mut order: Vec<(&PodKey, &Waiting)> = self.iter().collect();
        order.sort_by_key(|(_, pod)| (Reverse(pod.pending.need.priority), pod.pending.queued));
        assert!(self.front().eq(order.into_iter().map(|(key, _)| key)), "pods in their order");
    }
}
