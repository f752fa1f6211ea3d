//! A fake API server: pods and nodes, bindings, deletions, and what watchers see.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, Pod, PodSpec, PodStatus, Taint, Toleration},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use km_kube::{keys, pod::is_terminal};
use km_podtask::PodKey;
use km_scheduler::core::{ApiFailure, ApiReply, Event, PodListing};
use serde_json::Value;

#[derive(Default)]
pub struct Api {
    pub pods: BTreeMap<PodKey, Pod>,
    pub nodes: BTreeMap<String, Node>,
    /// What watchers are to see, in order.
    pub changes: VecDeque<Event>,
    /// Whether it can't be reached.
    pub down: bool,
    /// Pods that a disruption budget keeps.
    pub kept: Vec<PodKey>,
    /// So many bindings are refused before one succeeds.
    pub refuse_bindings: u32,
    /// How long pods tolerate an unreachable node that don't say it: 300 s if none.
    pub toleration: Option<i64>,
    next_uid: u32,
}

pub fn task_of(pod: &Pod) -> Option<String> {
    pod.metadata.annotations.as_ref()?.get(keys::TASK_ID).cloned()
}

pub fn uid_of(pod: &Pod) -> String {
    pod.metadata.uid.clone().expect("the API server gives UIDs")
}

pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

impl Api {
    pub fn create(&mut self, name: &str, mut spec: PodSpec, owner: Option<&str>) -> PodKey {
        self.next_uid += 1;
        let default = Toleration {
            key: Some("node.kubernetes.io/unreachable".into()),
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            toleration_seconds: Some(self.toleration.unwrap_or(300)),
            ..Toleration::default()
        };
        spec.tolerations.get_or_insert_with(|| vec![default]);
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.uid = Some(format!("{:08x}-0000-4000-8000-{:012x}", self.next_uid, self.next_uid));
        pod.metadata.owner_references = owner.map(|owner| {
            vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
                uid: owner.to_owned(),
                controller: Some(true),
                ..Default::default()
            }]
        });
        let key = PodKey::of(&pod.metadata);
        assert!(!self.pods.contains_key(&key), "{key} is there already");
        self.apply(pod);
        key
    }

    fn apply(&mut self, pod: Pod) {
        self.changes.push_back(Event::PodApplied(Arc::new(pod.clone())));
        self.pods.insert(PodKey::of(&pod.metadata), pod);
    }

    /// What a user's `kubectl delete` does: a pod with a node waits for its kubelet.
    pub fn delete(&mut self, key: &PodKey) {
        let Some(mut pod) = self.pods.get(key).cloned() else { return };
        if node_of(&pod).is_none() || is_terminal(&pod) {
            self.remove(key);
        } else {
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            self.apply(pod);
        }
    }

    pub fn remove(&mut self, key: &PodKey) {
        if let Some(pod) = self.pods.remove(key) {
            self.changes.push_back(Event::PodDeleted(Arc::new(pod)));
        }
    }

    /// Deletion with the pod's grace and a UID precondition; with `budgets` these may refuse it.
    pub fn evict(&mut self, key: &PodKey, uid: &str, budgets: bool) -> ApiReply {
        if self.pods.get(key).is_none_or(|pod| uid_of(pod) != uid) {
            return ApiReply::Failed(ApiFailure::Gone);
        }
        if budgets && self.kept.contains(key) {
            return ApiReply::Failed(ApiFailure::Refused("a disruption budget needs the pod".into()));
        }
        self.delete(key);
        ApiReply::Done
    }

    pub fn taints(&self, node: &str) -> Vec<Taint> {
        self.nodes.get(node).and_then(|node| node.spec.as_ref()?.taints.clone()).unwrap_or_default()
    }

    /// Deletion with grace 0 and a UID precondition.
    pub fn remove_exactly(&mut self, key: &PodKey, uid: &str) -> ApiReply {
        if self.pods.get(key).is_none_or(|pod| uid_of(pod) != uid) {
            return ApiReply::Failed(ApiFailure::Gone);
        }
        self.remove(key);
        ApiReply::Done
    }

    /// What the executor's Binding does. Refused unless the pod is there, unbound and not being deleted.
    pub fn bind(&mut self, launched: &Pod, node: &str) -> bool {
        let key = PodKey::of(&launched.metadata);
        let Some(mut pod) = self.pods.get(&key).cloned() else { return false };
        if self.refuse_bindings > 0 {
            self.refuse_bindings -= 1;
            return false;
        }
        let same = uid_of(&pod) == uid_of(launched);
        if !same || node_of(&pod).is_some() || pod.metadata.deletion_timestamp.is_some() {
            return false;
        }
        pod.spec.as_mut().expect("it has a spec").node_name = Some(node.to_owned());
        pod.metadata
            .annotations
            .get_or_insert_default()
            .extend(launched.metadata.annotations.clone().unwrap_or_default());
        self.apply(pod);
        true
    }

    pub fn set_phase(&mut self, key: &PodKey, uid: &str, phase: &str) -> ApiReply {
        let Some(mut pod) = self.pods.get(key).filter(|pod| uid_of(pod) == uid).cloned() else {
            return ApiReply::Failed(ApiFailure::Gone);
        };
        if !is_terminal(&pod) {
            pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
            self.apply(pod);
        }
        ApiReply::Done
    }

    pub fn create_node(&mut self, node: Node) {
        let name = node.metadata.name.clone().expect("a name");
        if self.nodes.contains_key(&name) {
            return;
        }
        self.changes.push_back(Event::NodeApplied(Arc::new(node.clone())));
        self.nodes.insert(name, node);
    }

    pub fn patch_node(&mut self, name: &str, patch: &Value) -> ApiReply {
        let Some(node) = self.nodes.get_mut(name) else { return ApiReply::Failed(ApiFailure::Gone) };
        let mut value = serde_json::to_value(&*node).expect("a node is JSON");
        merge(&mut value, patch);
        *node = serde_json::from_value(value).expect("it stays a node");
        self.changes.push_back(Event::NodeApplied(Arc::new(node.clone())));
        ApiReply::Done
    }

    pub fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.changes.push_back(Event::NodeDeleted(name.to_owned()));
        }
    }

    pub fn fetch(&self, key: &PodKey, uid: &str) -> ApiReply {
        ApiReply::Pod(self.pods.get(key).filter(|pod| uid_of(pod) == uid).cloned().map(Arc::new))
    }

    pub fn list(&self) -> ApiReply {
        ApiReply::Pods(PodListing { uids: self.pods.values().map(uid_of).collect(), ours: true })
    }

    pub fn ready(&self, node: &str) -> Option<String> {
        let conditions: &Vec<NodeCondition> = self.nodes.get(node)?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.clone())
    }
}

/// JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
