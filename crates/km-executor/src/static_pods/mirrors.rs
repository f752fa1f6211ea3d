//! Which mirrors the API server has, and which it should have. No IO.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use km_kube::pod;

use super::mirror::hash;
use crate::api::{PodChange, PodKey};

/// What is to be done about a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is of no pod here, or somebody deletes it: only we can let it go.
    Delete(PodKey),
    /// It is gone although its pod is not.
    Publish { namespace: String, name: String },
}

#[derive(Debug, Default)]
pub struct Mirrors {
    /// Hashes of our static pods by namespace and name.
    ours: BTreeMap<(String, String), String>,
    /// Mirrors that are there, by UID.
    known: BTreeMap<String, PodKey>,
}

impl Mirrors {
    /// Notes a static pod of this executor.
    pub fn own(&mut self, pod: &Pod) {
        let key = PodKey::of(pod);
        self.ours.insert((key.namespace, key.name), hash(pod).to_owned());
    }

    /// The mirrors that are there.
    pub fn known(&self) -> impl Iterator<Item = &PodKey> {
        self.known.values()
    }

    pub fn pod_changed(&mut self, change: &PodChange) -> Vec<Step> {
        match change {
            PodChange::Applied(mirror) if pod::is_mirror(mirror) => self.applied(mirror),
            PodChange::Applied(_) => Vec::new(),
            PodChange::Gone(uid) => self.gone(uid).into_iter().collect(),
            PodChange::Complete(uids) => {
                let gone: Vec<String> = self.known.keys().filter(|uid| !uids.contains(uid)).cloned().collect();
                gone.iter().filter_map(|uid| self.gone(uid)).collect()
            }
        }
    }

    fn applied(&mut self, mirror: &Pod) -> Vec<Step> {
        let key = PodKey::of(mirror);
        self.known.insert(key.uid.clone(), key.clone());
        let own = self.ours.get(&(key.namespace.clone(), key.name.clone()));
        let current = own.is_some_and(|own| own == hash(mirror));
        let stays = current && mirror.metadata.deletion_timestamp.is_none();
        if stays { Vec::new() } else { vec![Step::Delete(key)] }
    }

    fn gone(&mut self, uid: &str) -> Option<Step> {
        let PodKey { namespace, name, .. } = self.known.remove(uid)?;
        let own = self.ours.contains_key(&(namespace.clone(), name.clone()));
        own.then_some(Step::Publish { namespace, name })
    }
}
