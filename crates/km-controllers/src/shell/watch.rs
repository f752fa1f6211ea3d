//! One watch: list, follow, list again when the history is lost.

use crate::core::{Event, Key, Resource};
use futures::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event as WatchEvent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::sync::mpsc::Sender;

/// Sends what it sees; ends when nobody listens.
pub(super) async fn follow(client: kube::Client, resource: Resource, events: Sender<Event>) {
    let kind = GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind);
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, &resource.plural));
    let stream = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let mut known = Known { resource: resource.clone(), objects: BTreeMap::new(), listed: None };
    while let Some(item) = stream.next().await {
        let out = match item {
            Ok(event) => known.take(event),
            Err(error) => {
                // The stream backs off and goes on by itself.
                tracing::debug!(resource = resource.plural, %error, "a watch broke and is taken up again");
                continue;
            }
        };
        for event in out {
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// The metadata of all objects seen, to tell after a new list what went away unseen.
struct Known {
    resource: Resource,
    objects: BTreeMap<Key, Value>,
    /// What the list under way has shown.
    listed: Option<BTreeMap<Key, Value>>,
}

impl Known {
    fn take(&mut self, event: WatchEvent<DynamicObject>) -> Vec<Event> {
        match event {
            WatchEvent::Init => {
                self.listed = Some(BTreeMap::new());
                Vec::new()
            }
            WatchEvent::InitApply(object) | WatchEvent::Apply(object) => self.seen(object),
            WatchEvent::Delete(object) => self.gone(object),
            WatchEvent::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let before = std::mem::replace(&mut self.objects, listed);
                let lost = before.into_iter().filter(|(key, _)| !self.objects.contains_key(key));
                let mut out: Vec<Event> = lost.map(|(_, object)| Event::Gone(self.resource.clone(), object)).collect();
                out.push(Event::Synced(self.resource.clone()));
                out
            }
        }
    }

    fn seen(&mut self, object: DynamicObject) -> Vec<Event> {
        let Some((key, object)) = plain(object) else { return Vec::new() };
        let metadata = json!({"metadata": object["metadata"]});
        let old = self.objects.insert(key.clone(), metadata.clone());
        if let Some(listed) = &mut self.listed {
            listed.insert(key, metadata);
        }
        let mut out = Vec::new();
        // Deleted and made again while we did not look.
        if let Some(old) = old.filter(|old| old["metadata"]["uid"] != object["metadata"]["uid"]) {
            out.push(Event::Gone(self.resource.clone(), old));
        }
        out.push(Event::Seen(self.resource.clone(), object));
        out
    }

    fn gone(&mut self, object: DynamicObject) -> Vec<Event> {
        let Some((key, object)) = plain(object) else { return Vec::new() };
        self.objects.remove(&key);
        vec![Event::Gone(self.resource.clone(), object)]
    }
}

/// As JSON, without what only takes room.
fn plain(mut object: DynamicObject) -> Option<(Key, Value)> {
    object.metadata.managed_fields = None;
    let key = Key::new(
        object.metadata.namespace.as_deref().unwrap_or_default(),
        object.metadata.name.as_deref().unwrap_or_default(),
    );
    match serde_json::to_value(object) {
        Ok(value) => Some((key, value)),
        Err(error) => {
            tracing::error!(%key, %error, "an object cannot be read and is left out");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": uid}})).unwrap()
    }

    fn told(events: &[Event]) -> Vec<String> {
        let one = |event: &Event| match event {
            Event::Seen(_, object) => format!("seen {}", object["metadata"]["uid"].as_str().unwrap()),
            Event::Gone(_, object) => format!("gone {}", object["metadata"]["uid"].as_str().unwrap()),
            Event::Synced(_) => "synced".to_owned(),
            Event::Resources(_) => "resources".to_owned(),
        };
        events.iter().map(one).collect()
    }

    #[test]
    fn a_second_list_tells_what_went_away_or_was_replaced() {
        let mut known = Known { resource: Resource::pods(), objects: BTreeMap::new(), listed: None };
        known.take(WatchEvent::Init);
        assert_eq!(told(&known.take(WatchEvent::InitApply(object("a", "1")))), ["seen 1"]);
        assert_eq!(told(&known.take(WatchEvent::InitApply(object("b", "2")))), ["seen 2"]);
        assert_eq!(told(&known.take(WatchEvent::InitDone)), ["synced"]);
        assert_eq!(told(&known.take(WatchEvent::Apply(object("c", "3")))), ["seen 3"]);
        assert_eq!(told(&known.take(WatchEvent::Delete(object("c", "3")))), ["gone 3"]);
        known.take(WatchEvent::Init);
        assert_eq!(told(&known.take(WatchEvent::InitApply(object("a", "9")))), ["gone 1", "seen 9"]);
        assert_eq!(told(&known.take(WatchEvent::InitDone)), ["gone 2", "synced"]);
    }
}
