//! Watches pods, nodes, and what placement minds besides, keeps them, and tells whoever leads.
//!
//! The watches run as long as the process: a scheduler that stands by has everything at hand when it is elected.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{FutureExt, StreamExt, future::select_all};
use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use km_podtask::PodKey;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{identity::Identity, status::Status};
use crate::core::Event;

/// How many kinds are needed before the core may start.
const KINDS: usize = 2;

/// A kind that is watched.
trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static {
    /// Whether the core waits for the first list.
    const NEEDED: bool;
    fn applied(self: Arc<Self>) -> Event;
    fn deleted(self: Arc<Self>) -> Event;
}

impl Watched for Pod {
    const NEEDED: bool = true;
    fn applied(self: Arc<Self>) -> Event {
        Event::PodApplied(self)
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::PodDeleted(self)
    }
}

impl Watched for Node {
    const NEEDED: bool = true;
    fn applied(self: Arc<Self>) -> Event {
        Event::NodeApplied(self)
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::NodeDeleted(self.name_any())
    }
}

impl Watched for Namespace {
    const NEEDED: bool = false;
    fn applied(self: Arc<Self>) -> Event {
        Event::Namespace { name: self.name_any(), labels: self.labels().clone() }
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::Namespace { name: self.name_any(), labels: BTreeMap::new() }
    }
}

impl Watched for Service {
    const NEEDED: bool = false;
    fn applied(self: Arc<Self>) -> Event {
        let selector = self.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        Event::Service { id: PodKey::of(&self.metadata), selector }
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::Service { id: PodKey::of(&self.metadata), selector: BTreeMap::new() }
    }
}

impl Watched for PodDisruptionBudget {
    const NEEDED: bool = false;
    fn applied(self: Arc<Self>) -> Event {
        Event::BudgetApplied(self)
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::BudgetDeleted(self)
    }
}

impl Watched for PersistentVolumeClaim {
    const NEEDED: bool = false;
    fn applied(self: Arc<Self>) -> Event {
        Event::Claim { id: PodKey::of(&self.metadata), claim: Some(self) }
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::Claim { id: PodKey::of(&self.metadata), claim: None }
    }
}

impl Watched for PersistentVolume {
    const NEEDED: bool = false;
    fn applied(self: Arc<Self>) -> Event {
        Event::Volume { name: self.name_any(), volume: Some(self) }
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::Volume { name: self.name_any(), volume: None }
    }
}

impl Watched for StorageClass {
    const NEEDED: bool = false;
    fn applied(self: Arc<Self>) -> Event {
        Event::StorageClass { name: self.name_any(), class: Some(self) }
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::StorageClass { name: self.name_any(), class: None }
    }
}

/// A core that wants to know everything.
#[derive(Clone)]
pub struct Listener {
    identity: Arc<Identity>,
    events: mpsc::Sender<Event>,
    /// Kinds that it hasn't been told completely yet.
    missing: Arc<AtomicUsize>,
}

impl Listener {
    pub fn new(identity: Arc<Identity>, events: mpsc::Sender<Event>) -> Self {
        Self { identity, events, missing: Arc::new(AtomicUsize::new(KINDS)) }
    }

    /// One that has gone needs to know nothing.
    async fn tell(&self, event: Event) {
        let _gone = self.events.send(event).await;
    }

    /// All objects of a kind were told. After the last kind the core is told so: the channel keeps the order, so
    /// everything is in front of it.
    async fn complete(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell(Event::CachesSynced).await;
        }
    }
}

/// Runs until `stop`.
pub async fn run(
    client: Client,
    audience: watch::Receiver<Option<Listener>>,
    status: &Status,
    stop: &CancellationToken,
) {
    let missing = AtomicUsize::new(KINDS);
    let listed = || {
        if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            status.set_caches_synced();
        }
    };
    // Each watch is some tens of kB of state, and the stack of a thread has to take whatever future holds them.
    let watches = [
        follow::<Node>(client.clone(), audience.clone(), listed).boxed(),
        follow::<Pod>(client.clone(), audience.clone(), listed).boxed(),
        follow::<Namespace>(client.clone(), audience.clone(), || {}).boxed(),
        follow::<Service>(client.clone(), audience.clone(), || {}).boxed(),
        follow::<PersistentVolumeClaim>(client.clone(), audience.clone(), || {}).boxed(),
        follow::<PersistentVolume>(client.clone(), audience.clone(), || {}).boxed(),
        follow::<StorageClass>(client.clone(), audience.clone(), || {}).boxed(),
        follow::<PodDisruptionBudget>(client, audience, || {}).boxed(),
    ];
    stop.run_until_cancelled(select_all(watches)).await;
}

/// Ends when nobody can listen any more. `listed` is called once, after the first complete list.
async fn follow<K: Watched>(client: Client, mut audience: watch::Receiver<Option<Listener>>, listed: impl Fn()) {
    let mut stream = pin!(watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff());
    let mut cache = Cache::<K>::default();
    audience.mark_changed();
    loop {
        tokio::select! {
            changed = audience.changed() => {
                if changed.is_err() {
                    return;
                }
                let listener = audience.borrow_and_update().clone();
                cache.introduce(listener).await;
            }
            event = stream.next() => match event {
                Some(Ok(event)) => {
                    let before = cache.complete;
                    cache.take(event).await;
                    if cache.complete && !before {
                        listed();
                    }
                }
                Some(Err(error)) => tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted"),
                None => return,
            },
        }
    }
}

/// All objects of a kind, and to whom changes are told.
struct Cache<K> {
    known: BTreeMap<String, Arc<K>>,
    /// A list that isn't complete yet.
    listed: BTreeMap<String, Arc<K>>,
    complete: bool,
    listener: Option<Listener>,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listed: BTreeMap::new(), complete: false, listener: None }
    }
}

impl<K: Watched> Cache<K> {
    /// A new listener is told all that is known.
    async fn introduce(&mut self, listener: Option<Listener>) {
        self.listener = listener;
        let Some(listener) = &self.listener else { return };
        for object in self.known.values() {
            listener.tell(Arc::clone(object).applied()).await;
        }
        if self.complete && K::NEEDED {
            listener.complete().await;
        }
    }

    async fn take(&mut self, event: watcher::Event<K>) {
        match event {
            watcher::Event::Apply(object) => {
                let object = Arc::new(object);
                self.known.insert(key(&*object), Arc::clone(&object));
                self.tell(object.applied()).await;
            }
            watcher::Event::Delete(object) => {
                self.known.remove(&key(&object));
                self.tell(Arc::new(object).deleted()).await;
            }
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                self.listed.insert(key(&object), Arc::new(object));
            }
            watcher::Event::InitDone => self.take_list().await,
        }
    }

    async fn tell(&self, event: Event) {
        if let Some(listener) = &self.listener {
            listener.tell(event).await;
        }
    }

    /// A complete list is there: passes its objects on, and also the deletions that were missed.
    async fn take_list(&mut self) {
        let now = std::mem::take(&mut self.listed);
        let missing = self.known.iter().filter(|(key, _)| !now.contains_key(*key));
        let missing: Vec<(String, Arc<K>)> = missing.map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
        for (key, object) in now {
            self.known.insert(key, Arc::clone(&object));
            self.tell(object.applied()).await;
        }
        // Nobody acts on what a standby believes; what it missed is found out when it leads.
        let believed = match &self.listener {
            Some(listener) if !missing.is_empty() => is_ours(&listener.identity).await,
            _ => true,
        };
        if believed {
            for (key, object) in missing {
                self.known.remove(&key);
                self.tell(object.deleted()).await;
            }
        }
        if !std::mem::replace(&mut self.complete, true)
            && K::NEEDED
            && let Some(listener) = &self.listener
        {
            listener.complete().await;
        }
    }
}

/// A list without objects that were there proves their deletion only if it comes from the store that we know.
async fn is_ours(identity: &Identity) -> bool {
    match identity.is_kept().await {
        Ok(true) => true,
        Ok(false) => {
            tracing::error!("the API server doesn't know this framework: its lists are not believed");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "deletions of a new list wait for the next one");
            false
        }
    }
}

fn key<K: Watched>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
