//! The watches of pods, nodes, claims and volumes: opened with a list, resumed after a break, listed anew when the history is gone.

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
use km_fakeapi::{Api, Change, Compacted, What};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pods,
    Nodes,
    Claims,
    Volumes,
}

impl Kind {
    fn includes(self, change: &Change) -> bool {
        self == match &change.what {
            What::PodApplied(_) | What::PodDeleted(_) => Self::Pods,
            What::NodeApplied(_) | What::NodeDeleted(_) => Self::Nodes,
            What::Claim(..) => Self::Claims,
            What::Volume(..) => Self::Volumes,
        }
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
    shown: Shown,
}

/// Objects of one kind.
#[derive(Clone, Default)]
struct Shown {
    pods: BTreeMap<PodKey, Arc<Pod>>,
    /// Nodes or volumes.
    names: BTreeSet<String>,
    claims: BTreeSet<PodKey>,
}

impl Shown {
    /// Shows all that is there: each object, and that those are gone which are there no more.
    fn replace(&mut self, kind: Kind, api: &Api) -> Vec<Event> {
        let old = std::mem::take(self);
        let mut events = Vec::new();
        match kind {
            Kind::Pods => {
                self.pods.clone_from(&api.pods);
                events.extend(api.pods.values().map(|pod| Event::PodApplied(Arc::clone(pod))));
                let lost = old.pods.iter().filter(|(key, _)| !api.pods.contains_key(*key));
                events.extend(lost.map(|(_, pod)| Event::PodDeleted(Arc::clone(pod))));
            }
            Kind::Nodes => {
                self.names = api.nodes.keys().cloned().collect();
                events.extend(api.nodes.values().map(|node| Event::NodeApplied(Arc::clone(node))));
                events.extend(old.names.difference(&self.names).map(|name| Event::NodeDeleted(name.clone())));
            }
            Kind::Claims => {
                self.claims = api.claims.keys().cloned().collect();
                let all = self.claims.union(&old.claims);
                events.extend(all.map(|id| Event::Claim { id: id.clone(), claim: api.claims.get(id).cloned() }));
            }
            Kind::Volumes => {
                self.names = api.volumes.keys().cloned().collect();
                let all = self.names.union(&old.names);
                let volume = |name: &String| api.volumes.get(name).cloned();
                events.extend(all.map(|name| Event::Volume { name: name.clone(), volume: volume(name) }));
            }
        }
        events
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::PodApplied(pod) => _ = self.pods.insert(PodKey::of(&pod.metadata), Arc::clone(pod)),
            Event::PodDeleted(pod) => _ = self.pods.remove(&PodKey::of(&pod.metadata)),
            Event::NodeApplied(node) => _ = self.names.insert(node.metadata.name.clone().unwrap_or_default()),
            Event::NodeDeleted(name) | Event::Volume { name, volume: None } => _ = self.names.remove(name),
            Event::Volume { name, volume: Some(_) } => _ = self.names.insert(name.clone()),
            Event::Claim { id, claim: Some(_) } => _ = self.claims.insert(id.clone()),
            Event::Claim { id, claim: None } => _ = self.claims.remove(id),
            _ => {}
        }
    }
}

impl World {
    pub(super) fn open_watches(&mut self, process: usize) {
        for kind in [Kind::Nodes, Kind::Pods, Kind::Claims, Kind::Volumes] {
            let scheduler = &mut self.schedulers[process];
            scheduler.next_watch += 1;
            let number = scheduler.next_watch;
            let shown = Shown::default();
            scheduler.watches.push(Watch { kind, number, seen: None, sent: 0, open: false, shown });
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
        let version = self.api.version();
        let watches = &mut self.schedulers[process].watches;
        let Some(watch) = watches.iter_mut().find(|watch| watch.number == number) else { return };
        let events = watch.shown.replace(watch.kind, &self.api);
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
        watch.shown.note(&event);
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
        What::Claim(id, claim) => Event::Claim { id: id.clone(), claim: claim.clone() },
        What::Volume(name, volume) => Event::Volume { name: name.clone(), volume: volume.clone() },
    }
}
