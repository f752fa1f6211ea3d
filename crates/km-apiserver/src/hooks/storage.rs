//! Volumes and claims: the finalizers that protect them, the default class, and which claims may grow (the admission
//! plugins StorageObjectInUseProtection, DefaultStorageClass and PersistentVolumeClaimResize).

use km_kube::{
    keys::{CLAIM_PROTECTION, DEFAULT_CLASS, VOLUME_PROTECTION},
    quantity::Quantity,
};
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    registry::{Hooks, by_storage},
    server::Server,
    time,
};

pub const VOLUME_HOOKS: Hooks = Hooks { create: create_volume, update: |_, _, _| Ok(()) };
pub const CLAIM_HOOKS: Hooks = Hooks { create: create_claim, update: update_claim };

const CLASSES: &str = "storage.k8s.io/storageclasses";

fn create_volume(_: &Server, volume: &mut Value) -> Result<(), Failure> {
    protect(volume, VOLUME_PROTECTION);
    volume["status"]["lastPhaseTransitionTime"] = time::now().into();
    Ok(())
}

fn create_claim(server: &Server, claim: &mut Value) -> Result<(), Failure> {
    protect(claim, CLAIM_PROTECTION);
    if claim["spec"].get("storageClassName").is_none()
        && let Some(name) = default_class(server)?
    {
        claim["spec"]["storageClassName"] = name.into();
    }
    Ok(())
}

/// A claim may ask for more only where its class says that volumes can grow.
fn update_claim(server: &Server, old: &Value, new: &mut Value) -> Result<(), Failure> {
    if requested(new) <= requested(old) || old.pointer("/status/phase").is_none_or(|phase| phase != "Bound") {
        return Ok(());
    }
    let class = old["spec"]["storageClassName"].as_str().unwrap_or_default();
    let stored = by_storage(CLASSES).and_then(|kind| server.store.get(&kind.key(None, class)));
    if stored.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
               support resize";
    match by_storage("persistentvolumeclaims") {
        Some(kind) => Err(Failure::forbidden(kind, name, why)),
        None => Err(Failure::internal("claims are not served")),
    }
}

fn requested(claim: &Value) -> i64 {
    let amount = claim.pointer("/spec/resources/requests/storage").cloned().unwrap_or_default();
    serde_json::from_value::<Quantity>(amount).map(|amount| amount.value()).unwrap_or(0)
}

fn protect(object: &mut Value, finalizer: &str) {
    let metadata = &mut object["metadata"];
    match metadata["finalizers"].as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|one| one == finalizer) => {}
        Some(finalizers) => finalizers.push(finalizer.into()),
        None => metadata["finalizers"] = json!([finalizer]),
    }
}

/// The newest of the classes that are marked so; of equals the first by name.
fn default_class(server: &Server) -> Result<Option<String>, Failure> {
    let mut best: Option<(String, String)> = None;
    for stored in server.all(CLASSES)? {
        let class = stored.value();
        if class["metadata"]["annotations"][DEFAULT_CLASS] != "true" {
            continue;
        }
        let created = class["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        if best.as_ref().is_none_or(|(newest, _)| created > *newest) {
            best = Some((created, stored.key.name.clone()));
        }
    }
    Ok(best.map(|(_, name)| name))
}
