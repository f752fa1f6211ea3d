//! The watches of pods and nodes: opened with a list, resumed after a break, listed anew when the history is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use km_podtask::PodKey;
use km_scheduler::core::Event;

use crate::{
    delivery::{Delivery, ToScheduler},
    queue::Channel,
    world::World,
};
use km_fakeapi::{Change, Compacted, What};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pods,
    Nodes,
}

impl Kind {
    fn includes(self, change: &Change) -> bool {
        (self == Self::Pods) == change.pod().is_some()
    }
}

/// A watch of one kind.
pub(crate) struct Watch {
    kind: Kind,
    /// What is on its way in an older one is lost.
    number: u64,
    /// The newest version that arrived, and the newest that was sent. None before the first list.
    seen: Option<u64>,
    sent: u64,
    open: bool,
    /// What was shown, to find missed deletions after a new list.
    pods: BTreeMap<PodKey, Arc<Pod>>,
    nodes: BTreeSet<String>,
}

impl World {
    pub(super) fn open_watches(&mut self, process: usize) {
        for kind in [Kind::Nodes, Kind::Pods] {
            let scheduler = &mut self.schedulers[process];
            scheduler.next_watch += 1;
            let number = scheduler.next_watch;
            let (pods, nodes) = (BTreeMap::new(), BTreeSet::new());
            scheduler.watches.push(Watch { kind, number, seen: None, sent: 0, open: false, pods, nodes });
            let delay = self.latency();
            self.at_scheduler(process, delay, ToScheduler::Resume(number));
        }
    }

    /// All watches of the process end, with what is on its way in them.
    pub(crate) fn break_watches(&mut self, process: usize) {
        for index in 0..self.schedulers[process].watches.len() {
            let scheduler = &mut self.schedulers[process];
            scheduler.next_watch += 1;
            let number = scheduler.next_watch;
            let watch = &mut scheduler.watches[index];
            watch.open = false;
            watch.number = number;
            let pause = self.around(Duration::from_secs(2));
            self.at_scheduler(process, pause, ToScheduler::Resume(number));
        }
    }

    /// Sends the changes to a process' watches.
    pub(crate) fn publish_to_scheduler(&mut self, process: usize) {
        let life = self.schedulers[process].life;
        for index in 0..self.schedulers[process].watches.len() {
            loop {
                let watch = &mut self.schedulers[process].watches[index];
                if !watch.open {
                    break;
                }
                let change = match self.api.change_after(watch.sent) {
                    Ok(Some(change)) => change.clone(),
                    Ok(None) => break,
                    Err(Compacted) => {
                        self.break_watches(process);
                        return;
                    }
                };
                watch.sent = change.version;
                if watch.kind.includes(&change) {
                    let number = watch.number;
                    let delivery = Delivery::Scheduler(process, life, ToScheduler::Watch(number, change));
                    self.travel(Channel::Watch(process, number), delivery);
                }
            }
        }
    }

    pub(super) fn resume_watch(&mut self, process: usize, number: u64) {
        if !self.schedulers[process].watches.iter().any(|watch| watch.number == number) {
            return;
        }
        if !self.reaches_api(process) {
            self.at_scheduler(process, Duration::from_secs(1), ToScheduler::Resume(number));
            return;
        }
        let Some(watch) = self.schedulers[process].watches.iter_mut().find(|watch| watch.number == number) else {
            return;
        };
        watch.open = true;
        match watch.seen {
            Some(seen) if self.api.change_after(seen).is_ok() => watch.sent = seen,
            _ => self.list(process, number),
        }
    }

    /// Lists for all watches of the process, as after a break that outlasted the history.
    pub(crate) fn list_anew(&mut self, process: usize) {
        let numbers: Vec<u64> = self.schedulers[process].watches.iter().map(|watch| watch.number).collect();
        for number in numbers {
            self.list(process, number);
        }
    }

    /// Everything that is there, and the deletion of what is there no more.
    fn list(&mut self, process: usize, number: u64) {
        self.note(|| format!("scheduler {process} lists for watch {number}"));
        let (pods, nodes, version) = (&self.api.pods, &self.api.nodes, self.api.version());
        let watches = &mut self.schedulers[process].watches;
        let Some(watch) = watches.iter_mut().find(|watch| watch.number == number) else { return };
        let mut events = Vec::new();
        match watch.kind {
            Kind::Pods => {
                events.extend(pods.values().map(|pod| Event::PodApplied(Arc::clone(pod))));
                let lost = watch.pods.iter().filter(|(key, _)| !pods.contains_key(*key));
                events.extend(lost.map(|(_, pod)| Event::PodDeleted(Arc::clone(pod))));
                watch.pods = pods.clone();
            }
            Kind::Nodes => {
                events.extend(nodes.values().map(|node| Event::NodeApplied(Arc::clone(node))));
                let lost = watch.nodes.iter().filter(|name| !nodes.contains_key(*name));
                events.extend(lost.map(|name| Event::NodeDeleted(name.clone())));
                watch.nodes = nodes.keys().cloned().collect();
            }
        }
        watch.seen = Some(version);
        watch.sent = version;
        for event in events {
            self.scheduler_event(process, event);
        }
        let scheduler = &mut self.schedulers[process];
        if !scheduler.synced && scheduler.watches.iter().all(|watch| watch.seen.is_some()) {
            scheduler.synced = true;
            self.scheduler_event(process, Event::CachesSynced);
        }
    }

    pub(super) fn watch_delivers(&mut self, process: usize, number: u64, change: &Change) {
        let watches = &mut self.schedulers[process].watches;
        let Some(watch) = watches.iter_mut().find(|watch| watch.number == number) else { return };
        let seen = watch.seen.replace(change.version).unwrap_or_default();
        let kind = watch.kind;
        let event = event_of(change);
        match &event {
            Event::PodApplied(pod) => {
                watch.pods.insert(PodKey::of(&pod.metadata), Arc::clone(pod));
            }
            Event::PodDeleted(pod) => {
                watch.pods.remove(&PodKey::of(&pod.metadata));
            }
            Event::NodeApplied(node) => {
                watch.nodes.insert(node.metadata.name.clone().unwrap_or_default());
            }
            Event::NodeDeleted(name) => {
                watch.nodes.remove(name);
            }
            _ => {}
        }
        self.check_order(kind, seen, change);
        self.scheduler_event(process, event);
    }

    /// Invariant 9: every change after the version that was seen, in order, once.
    fn check_order(&mut self, kind: Kind, seen: u64, change: &Change) {
        let mut after = seen;
        while let Ok(Some(next)) = self.api.change_after(after) {
            if kind.includes(next) {
                let expected = next.version;
                if expected != change.version {
                    let got = change.version;
                    self.violate(|| format!("invariant 9: after {seen} version {got} is watched, not {expected}"));
                }
                return;
            }
            after = next.version;
        }
    }
}

/// As the scheduler is told.
fn event_of(change: &Change) -> Event {
    match &change.what {
        What::PodApplied(pod) => Event::PodApplied(Arc::clone(pod)),
        What::PodDeleted(pod) => Event::PodDeleted(Arc::clone(pod)),
        What::NodeApplied(node) => Event::NodeApplied(Arc::clone(node)),
        What::NodeDeleted(name) => Event::NodeDeleted(name.clone()),
    }
}
