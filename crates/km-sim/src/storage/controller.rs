//! The controller of volumes and the provisioner: one write at a time, late, and now and then in vain.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use km_kube::keys::SELECTED_NODE;
use km_podtask::PodKey;
use rand::Rng;

use super::{class_of, is_bound, volume, volume_name};
use crate::{delivery::Delivery, world::World};

/// Mean time between two writes.
const PAUSE: Duration = Duration::from_millis(700);
/// How often it looks when there is nothing to do.
const IDLE: Duration = Duration::from_secs(4);

/// What the controller remembers.
#[derive(Default)]
pub(crate) struct Storage {
    /// The API server's version when there was nothing to do.
    settled: Option<u64>,
    made: u64,
}

/// A write that is due.
#[derive(Clone, Debug)]
enum Write {
    /// The volume's claim is gone, or has another volume.
    Free(String),
    /// The volume is reserved for the claim: the claim names it.
    Name(PodKey, String),
    VolumeBound(String),
    ClaimBound(PodKey),
    /// A volume for the claim on that host.
    Make(PodKey, String),
    /// Nothing can be made there: another node is to be chosen.
    Reject(PodKey),
    /// A free volume of a claim that waits for no pod.
    Reserve(PodKey, String),
}

/// The claim that a volume is reserved for, and its UID.
fn reserved_for(volume: &PersistentVolume) -> Option<(PodKey, Option<&str>)> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some((PodKey::new(reference.namespace.as_deref()?, reference.name.as_deref()?), reference.uid.as_deref()))
}

fn is_available(volume: &PersistentVolume, class: &str) -> bool {
    let spec = volume.spec.as_ref();
    spec.is_some_and(|spec| spec.claim_ref.is_none() && spec.storage_class_name.as_deref() == Some(class))
}

fn phase_of(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

impl World {
    pub(super) fn plan_binding(&mut self) {
        let pause = self.around(if self.storage.settled.is_some() { IDLE } else { PAUSE });
        self.at(pause, Delivery::Bind);
    }

    /// One of the writes that are due.
    pub(crate) fn bind_volumes(&mut self) {
        self.plan_binding();
        if self.api.down || self.mishap(0.3) || self.storage.settled == Some(self.api.version()) {
            return;
        }
        let due = self.due_writes();
        self.storage.settled = due.is_empty().then(|| self.api.version());
        if due.is_empty() {
            return;
        }
        let write = due[self.rng.random_range(0..due.len())].clone();
        self.note(|| format!("controller of volumes: {write:?}"));
        self.write(write);
    }

    fn due_writes(&mut self) -> Vec<Write> {
        let fails = self.mishap(0.1);
        let mut due = Vec::new();
        for (name, volume) in &self.api.volumes {
            let Some((key, uid)) = reserved_for(volume) else { continue };
            let claim = self.api.claims.get(&key).filter(|claim| claim.metadata.uid.as_deref() == uid);
            due.extend(match claim.map(|claim| (volume_name(claim), is_bound(claim))) {
                None => Some(Write::Free(name.clone())),
                Some((None, _)) if fails => Some(Write::Free(name.clone())),
                Some((None, _)) => Some(Write::Name(key, name.clone())),
                Some((Some(other), _)) if other != name => Some(Write::Free(name.clone())),
                Some(_) if phase_of(volume) != "Bound" => Some(Write::VolumeBound(name.clone())),
                Some((_, false)) => Some(Write::ClaimBound(key)),
                Some((_, true)) => None,
            });
        }
        for (key, claim) in self.api.claims.iter().filter(|(_, claim)| volume_name(claim).is_none()) {
            let reserved = |volume: &PersistentVolume| reserved_for(volume).is_some_and(|(of, _)| of == *key);
            if !self.api.volumes.values().any(|volume| reserved(volume)) {
                due.extend(self.due_for(key, claim, fails));
            }
        }
        due
    }

    /// What is due for a claim that no volume is reserved for.
    fn due_for(&self, key: &PodKey, claim: &PersistentVolumeClaim, fails: bool) -> Option<Write> {
        match class_of(claim) {
            "made" => {
                let node = claim.metadata.annotations.as_ref()?.get(SELECTED_NODE)?;
                let host = self.host_numbers.get(node).filter(|number| !fails && !self.hosts[**number].scrapped);
                Some(if host.is_some() { Write::Make(key.clone(), node.clone()) } else { Write::Reject(key.clone()) })
            }
            "now" => {
                let mut free = self.api.volumes.iter().filter(|(_, volume)| is_available(volume, "now"));
                free.next().map(|(name, _)| Write::Reserve(key.clone(), name.clone()))
            }
            _ => None,
        }
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Free(name) if name.starts_with("made") => self.api.remove_volume(&name),
            Write::Free(name) => self.api.edit_volume(&name, |volume| {
                volume.spec.get_or_insert_default().claim_ref = None;
                volume.status.get_or_insert_default().phase = Some("Available".to_owned());
            }),
            Write::Name(key, name) => {
                self.api.edit_claim(&key, |claim| claim.spec.get_or_insert_default().volume_name = Some(name));
            }
            Write::VolumeBound(name) => self.api.edit_volume(&name, |volume| {
                volume.status.get_or_insert_default().phase = Some("Bound".to_owned());
            }),
            Write::ClaimBound(key) => self.api.edit_claim(&key, |claim| {
                claim.status.get_or_insert_default().phase = Some("Bound".to_owned());
            }),
            Write::Make(key, host) => {
                let Some(claim) = self.api.claims.get(&key).cloned() else { return };
                self.storage.made += 1;
                let name = format!("made-{}", self.storage.made);
                self.api.store_volume(volume(&name, "made", &host, Some(&claim)));
            }
            Write::Reject(key) => self.api.edit_claim(&key, |claim| {
                claim.metadata.annotations.get_or_insert_default().remove(SELECTED_NODE);
            }),
            Write::Reserve(key, name) => {
                let uid = self.api.claims.get(&key).and_then(|claim| claim.metadata.uid.clone()).unwrap_or_default();
                let version = self.api.volumes.get(&name).and_then(|volume| volume.metadata.resource_version.clone());
                // Nothing happened since it was looked at.
                let _done = self.api.reserve_volume(&name, &version.unwrap_or_default(), &key, &uid);
            }
        }
    }
}
