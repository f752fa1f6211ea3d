//! Watches pods and nodes and turns them into events.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, sync::Arc};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::identity::Identity;
use crate::core::Event;

/// A kind that is watched.
trait Watched: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static {
    fn applied(self: Arc<Self>) -> Event;
    fn deleted(self: Arc<Self>) -> Event;
}

impl Watched for Pod {
    fn applied(self: Arc<Self>) -> Event {
        Event::PodApplied(self)
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::PodDeleted(self)
    }
}

impl Watched for Node {
    fn applied(self: Arc<Self>) -> Event {
        Event::NodeApplied(self)
    }
    fn deleted(self: Arc<Self>) -> Event {
        Event::NodeDeleted(self.name_any())
    }
}

/// Runs until `stop`, or until nobody wants the events.
pub async fn run(client: Client, identity: Arc<Identity>, events: mpsc::Sender<Event>, stop: &CancellationToken) {
    let (synced, mut both) = mpsc::channel::<()>(2);
    let nodes = follow::<Node>(client.clone(), &identity, events.clone(), synced.clone());
    let pods = follow::<Pod>(client, &identity, events.clone(), synced);
    let report = async {
        for _ in 0..2 {
            both.recv().await;
        }
        // The channel keeps the order: all objects are in front of this.
        let _closed = events.send(Event::CachesSynced).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = nodes => {}
        () = pods => {}
        () = report => {}
        () = stop.cancelled() => {}
    }
}

async fn follow<K: Watched>(
    client: Client,
    identity: &Identity,
    events: mpsc::Sender<Event>,
    synced: mpsc::Sender<()>,
) {
    let stream = watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff();
    let ended = pump(pin!(stream), identity, &events, &synced).await;
    tracing::debug!(kind = %K::kind(&()), ?ended, "watch ended");
}

/// Passes events on; after a new list also the deletions that were missed. None when nobody listens any more.
async fn pump<K: Watched>(
    mut stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin,
    identity: &Identity,
    events: &mpsc::Sender<Event>,
    synced: &mpsc::Sender<()>,
) -> Option<()> {
    let mut known: BTreeMap<String, Arc<K>> = BTreeMap::new();
    let mut listed: BTreeMap<String, Arc<K>> = BTreeMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Apply(object)) => {
                let object = Arc::new(object);
                known.insert(key(&*object), Arc::clone(&object));
                events.send(object.applied()).await.ok()?;
            }
            Ok(watcher::Event::Delete(object)) => {
                known.remove(&key(&object));
                events.send(Arc::new(object).deleted()).await.ok()?;
            }
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(key(&object), Arc::new(object));
            }
            Ok(watcher::Event::InitDone) => {
                let now = std::mem::take(&mut listed);
                let missing: Vec<(String, Arc<K>)> = known
                    .iter()
                    .filter(|(key, _)| !now.contains_key(*key))
                    .map(|(k, o)| (k.clone(), o.clone()))
                    .collect();
                for (key, object) in &now {
                    known.insert(key.clone(), Arc::clone(object));
                    events.send(Arc::clone(object).applied()).await.ok()?;
                }
                if !missing.is_empty() && is_ours(identity).await {
                    for (key, object) in missing {
                        known.remove(&key);
                        events.send(object.deleted()).await.ok()?;
                    }
                }
                let _already_synced = synced.try_send(());
            }
            Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted"),
        }
    }
    None
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
