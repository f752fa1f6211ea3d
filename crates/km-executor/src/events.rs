//! Kubernetes events about pods and the node, sent in the background: a lost event must not hold anything up.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
};
use km_pod::Level;
use tokio::sync::mpsc;

use crate::api::Api;

/// Events beyond this many that wait to be sent are dropped.
const QUEUE: usize = 1000;
const COMPONENT: &str = "kubelet";

/// UID, field path, reason and message: what makes two events the same.
type Subject = (Option<String>, Option<String>, Option<String>, Option<String>);

/// Events that repeat are one object with a count.
#[derive(Default)]
struct Seen {
    known: HashMap<Subject, Event>,
}

impl Seen {
    /// Gives an event that was sent before the name, the first time and the count of that one.
    fn merge(&mut self, event: &mut Event) {
        let about = &event.involved_object;
        let key = (about.uid.clone(), about.field_path.clone(), event.reason.clone(), event.message.clone());
        if self.known.len() >= QUEUE {
            self.known.clear();
        }
        let first = self.known.entry(key).and_modify(|first| first.count = first.count.map(|count| count + 1));
        let first = first.or_insert_with(|| event.clone());
        event.metadata.name.clone_from(&first.metadata.name);
        event.first_timestamp.clone_from(&first.first_timestamp);
        event.count = first.count;
    }
}

#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    node: String,
}

impl Recorder {
    pub fn spawn(api: Arc<dyn Api>, node: &str) -> Self {
        let (queue, mut events) = mpsc::channel::<Event>(QUEUE);
        tokio::spawn(async move {
            let mut seen = Seen::default();
            while let Some(mut event) = events.recv().await {
                seen.merge(&mut event);
                if let Err(error) = api.record(&event).await {
                    tracing::warn!(%error, reason = event.reason.as_deref(), "event not recorded");
                }
            }
        });
        Self { queue, node: node.to_owned() }
    }

    /// Notes something about a pod, or about one of its containers.
    pub fn pod(&self, pod: &Pod, level: Level, reason: &str, message: String, container: Option<String>) {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref();
        let path = container.map(|name| {
            let init = spec.is_some_and(|spec| spec.init_containers.iter().flatten().any(|one| one.name == name));
            format!("spec.{}{{{name}}}", if init { "initContainers" } else { "containers" })
        });
        let about = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: path,
        };
        tracing::info!(pod = meta.name, namespace = meta.namespace, reason, "{message}");
        self.send(about, level, reason, message);
    }

    fn send(&self, about: ObjectReference, level: Level, reason: &str, message: String) {
        let now = Timestamp::now();
        let suffix = uuid::Uuid::new_v4().simple().to_string();
        let name = about.name.clone().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{}", &suffix[..16])),
                namespace: about.namespace.clone().or(Some("default".into())),
                ..Default::default()
            },
            involved_object: about,
            type_: Some(match level {
                Level::Normal => "Normal".into(),
                Level::Warning => "Warning".into(),
            }),
            reason: Some(reason.to_owned()),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            event_time: None::<MicroTime>,
            source: Some(EventSource { component: Some(COMPONENT.into()), host: Some(self.node.clone()) }),
            reporting_component: Some(COMPONENT.into()),
            reporting_instance: Some(self.node.clone()),
            ..Default::default()
        };
        if self.queue.try_send(event).is_err() {
            tracing::warn!(reason, "too many events wait: this one is dropped");
        }
    }
}
