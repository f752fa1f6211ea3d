//! Persistent volumes and claims to them. Who binds them is not played here.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use km_kube::keys::{BOUND_BY_CONTROLLER, SELECTED_NODE};
use km_podtask::PodKey;

use super::{Api, history::What, nodes::WriteError};

impl Api {
    /// Writes a claim, a new one too.
    pub fn store_claim(&mut self, mut claim: PersistentVolumeClaim) {
        let key = PodKey::of(&claim.metadata);
        let version = self.history.next();
        claim.metadata.resource_version = Some(version.to_string());
        let claim = Arc::new(claim);
        self.history.push(version, What::Claim(key.clone(), Some(Arc::clone(&claim))));
        self.claims.insert(key, claim);
    }

    /// Changes a claim, if it is there.
    pub fn edit_claim(&mut self, key: &PodKey, change: impl FnOnce(&mut PersistentVolumeClaim)) {
        if let Some(mut claim) = self.claims.get(key).map(|claim| PersistentVolumeClaim::clone(claim)) {
            change(&mut claim);
            self.store_claim(claim);
        }
    }

    pub fn remove_claim(&mut self, key: &PodKey) {
        if self.claims.remove(key).is_some() {
            let version = self.history.next();
            self.history.push(version, What::Claim(key.clone(), None));
        }
    }

    /// Writes a volume, a new one too.
    pub fn store_volume(&mut self, mut volume: PersistentVolume) {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let version = self.history.next();
        volume.metadata.resource_version = Some(version.to_string());
        let volume = Arc::new(volume);
        self.history.push(version, What::Volume(name.clone(), Some(Arc::clone(&volume))));
        self.volumes.insert(name, volume);
    }

    /// Changes a volume, if it is there.
    pub fn edit_volume(&mut self, name: &str, change: impl FnOnce(&mut PersistentVolume)) {
        if let Some(mut volume) = self.volumes.get(name).map(|volume| PersistentVolume::clone(volume)) {
            change(&mut volume);
            self.store_volume(volume);
        }
    }

    pub fn remove_volume(&mut self, name: &str) {
        if self.volumes.remove(name).is_some() {
            let version = self.history.next();
            self.history.push(version, What::Volume(name.to_owned(), None));
        }
    }

    /// Reserves a volume for a claim, as the scheduler asks for it, if it is of that version still.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn reserve_volume(&mut self, name: &str, version: &str, claim: &PodKey, uid: &str) -> Result<(), WriteError> {
        let volume = self.volumes.get(name).ok_or(WriteError::Gone)?;
        if volume.metadata.resource_version.as_deref() != Some(version) {
            return Err(WriteError::Refused("the volume was changed".to_owned()));
        }
        self.edit_volume(name, |volume| {
            let annotations = volume.metadata.annotations.get_or_insert_default();
            annotations.insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
            volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: Some(claim.namespace.clone()),
                name: Some(claim.name.clone()),
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            });
        });
        Ok(())
    }

    /// Tells a claim's provisioner the node, as the scheduler asks for it, if it is of that version still.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn select_node(&mut self, key: &PodKey, version: &str, node: &str) -> Result<(), WriteError> {
        let claim = self.claims.get(key).ok_or(WriteError::Gone)?;
        if claim.metadata.resource_version.as_deref() != Some(version) {
            return Err(WriteError::Refused("the claim was changed".to_owned()));
        }
        self.edit_claim(key, |claim| {
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
        });
        Ok(())
    }
}
