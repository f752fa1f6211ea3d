//! Persistent volumes: claims of pods, volumes that are on one host each, and who may use them.
//!
//! Volumes of the class `local` are made by hand and reserved by the scheduler; those of `made` are made for the node that
//! the scheduler tells; those of `now` are given to claims before any pod. The controller is in a file of its own.

mod controller;

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Volume},
    serde::de::DeserializeOwned,
};
use km_kube::keys::HOSTNAME_LABEL;
use km_mesos_proto::v1::TaskInfo;
use km_podtask::PodKey;
use km_scheduler::core::Event;
use rand::Rng;
use serde_json::{Value, json};

use crate::world::World;
pub(crate) use controller::Storage;

/// Provisioner and mode of each class.
const CLASSES: [(&str, &str, &str); 3] = [
    ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ("made", "disk.example", "WaitForFirstConsumer"),
    ("now", "kubernetes.io/no-provisioner", "Immediate"),
];
/// How often a pod has claims.
const OFTEN: f64 = 0.15;
/// So important are pods with claims: where their volume is, others make room for them.
const IMPORTANT: i32 = 10;

/// What is written here is well-formed.
fn read<T: DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

/// A volume on a host, reserved for a claim or for nobody.
fn volume(name: &str, class: &str, host: &str, claim: Option<&PersistentVolumeClaim>) -> PersistentVolume {
    let here = json!([{ "key": HOSTNAME_LABEL, "operator": "In", "values": [host] }]);
    let reference = claim.map(|claim| {
        let meta = &claim.metadata;
        json!({ "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid })
    });
    read(json!({
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "capacity": { "storage": "1Gi" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": here }] } },
            "claimRef": reference,
        },
        "status": { "phase": "Available" },
    }))
}

/// The host of a volume that was made here.
fn host_of(volume: &PersistentVolume) -> Option<&str> {
    let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
    let expressions = required.node_selector_terms.first()?.match_expressions.as_ref()?;
    expressions.first()?.values.as_ref()?.first().map(String::as_str)
}

fn class_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref()
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = PodKey> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.map(|claim| PodKey::new("default", &claim.claim_name))
}

impl World {
    /// Volumes by hand, on every host.
    pub(crate) fn make_volumes(&mut self) {
        if !self.settings.claims {
            return;
        }
        for host in 0..self.settings.agents {
            for (name, class) in [("a", "local"), ("b", "local"), ("c", "now")] {
                self.api.store_volume(volume(&format!("{class}-{host}-{name}"), class, &format!("host{host}"), None));
            }
        }
        self.plan_binding();
    }

    /// A scheduler that begins hears of the classes.
    pub(crate) fn tell_classes(&mut self, process: usize) {
        for (name, provisioner, mode) in CLASSES {
            let class = json!({
                "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode,
            });
            let class = Some(Arc::new(read(class)));
            self.scheduler_event(process, Event::StorageClass { name: name.to_owned(), class });
        }
    }

    /// Some pods get claims: new ones, or one that an earlier pod left.
    pub(crate) fn add_claims(&mut self, spec: &mut PodSpec) {
        if !self.settings.claims || !self.rng.random_bool(OFTEN) {
            return;
        }
        let used = self.used_claims();
        let left = self.api.claims.keys().find(|claim| !used.contains(*claim)).cloned();
        let reused = left.filter(|_| self.rng.random_bool(0.4));
        if reused.is_none() && self.api.claims.len() >= self.settings.agents * 3 {
            return;
        }
        let first = ["local", "local", "made", "now"][self.rng.random_range(0..4)];
        let mut claims = vec![reused.unwrap_or_else(|| self.new_claim(first))];
        if self.rng.random_bool(0.2) {
            claims.push(self.new_claim("made"));
        }
        spec.priority = Some(IMPORTANT);
        let mount = |claim: &PodKey| -> Volume {
            read(json!({ "name": claim.name, "persistentVolumeClaim": { "claimName": claim.name } }))
        };
        spec.volumes = Some(claims.iter().map(mount).collect());
        self.note(|| format!("the next pod has claims: {claims:?}"));
    }

    fn new_claim(&mut self, class: &str) -> PodKey {
        self.report.claims += 1;
        let key = PodKey::new("default", &format!("data-{}", self.report.claims));
        self.api.store_claim(read(json!({
            "metadata": { "name": key.name, "namespace": key.namespace, "uid": format!("claim-{}", self.report.claims) },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": { "requests": { "storage": "1Gi" } },
            },
            "status": { "phase": "Pending" },
        })));
        key
    }

    /// A user deletes a claim that no pod names: others are kept by their finalizer.
    pub(crate) fn delete_claim(&mut self) {
        let used = self.used_claims();
        if let Some(key) = self.api.claims.keys().find(|claim| !used.contains(*claim)).cloned() {
            self.note(|| format!("user deletes claim {key}"));
            self.api.remove_claim(&key);
        }
    }

    fn used_claims(&self) -> BTreeSet<PodKey> {
        self.api.pods.values().flat_map(|pod| claims_of(pod)).collect()
    }

    /// Invariant 11: a pod is launched when its claims are bound, and where its volumes are.
    pub(crate) fn check_claims(&mut self, tasks: &[TaskInfo]) {
        for task in tasks {
            let pod: Pod = serde_json::from_slice(task.data.as_deref().unwrap_or_default()).unwrap_or_default();
            let known = self.api.pods.get(&PodKey::of(&pod.metadata));
            if known.is_none_or(|known| known.metadata.uid != pod.metadata.uid) {
                // It is gone, and its claims may be.
                continue;
            }
            let of_task = |number: &usize| self.agent_id(*number).is_some_and(|id| id == task.agent_id.value);
            let host = (0..self.hosts.len()).find(of_task).map(|number| self.hosts[number].hostname.clone());
            let wrong = claims_of(&pod).find_map(|claim| self.wrong_with(&claim, host.as_deref()));
            if let Some(wrong) = wrong {
                self.violate(|| format!("invariant 11: {} is launched on {host:?}, but {wrong}", task.task_id.value));
            }
        }
    }

    fn wrong_with(&self, key: &PodKey, host: Option<&str>) -> Option<String> {
        let bound = self.api.claims.get(key).filter(|claim| is_bound(claim));
        let Some(claim) = bound else { return Some(format!("claim {key} isn't bound")) };
        let name = volume_name(claim).unwrap_or_default();
        let Some(volume) = self.api.volumes.get(name) else { return Some(format!("volume {name} isn't there")) };
        let place = host_of(volume);
        (host.is_some() && host != place).then(|| format!("volume {name} is on {place:?}"))
    }

    /// Whether no host can ever have all that a pod claims.
    pub(crate) fn claims_in_vain(&self, pod: &Pod) -> bool {
        claims_of(pod).any(|key| {
            let Some(claim) = self.api.claims.get(&key) else { return true };
            let is_there = |volume: &PersistentVolume| {
                let host = host_of(volume).and_then(|host| self.host_numbers.get(host));
                host.is_some_and(|number| !self.hosts[*number].scrapped)
            };
            let free = |volume: &PersistentVolume| {
                let spec = volume.spec.as_ref();
                spec.is_some_and(|spec| {
                    spec.claim_ref.is_none() && spec.storage_class_name.as_deref() == Some(class_of(claim))
                })
            };
            match volume_name(claim).and_then(|name| self.api.volumes.get(name)) {
                Some(volume) => !is_there(volume),
                None if class_of(claim) == "made" => false,
                None => !self.api.volumes.values().any(|volume| is_there(volume) && free(volume)),
            }
        })
    }
}
