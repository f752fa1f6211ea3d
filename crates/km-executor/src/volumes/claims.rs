//! Claims to persistent volumes: which folder of the host is behind one.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};

use super::host_path;
use crate::{api::Api, retry::while_unavailable};

/// The folder behind a claim that is bound.
///
/// # Errors
/// What is missing, or not supported, with the object and the field. All of it may pass: the pod goes on waiting.
pub async fn folder(api: &dyn Api, namespace: &str, name: &str) -> Result<PathBuf, String> {
    let found = while_unavailable("reading a persistent volume claim", || api.claim(namespace, name)).await;
    let claim = found.map_err(|error| format!("persistentvolumeclaim {name:?}: {error}"))?;
    let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
    let volume_name = volume_of(&claim).map_err(|why| format!("persistentvolumeclaim {name:?} {why}"))?;
    let found = while_unavailable("reading a persistent volume", || api.persistent_volume(volume_name)).await;
    let volume = found.map_err(|error| format!("persistentvolume {volume_name:?}: {error}"))?;
    let volume = volume
        .ok_or_else(|| format!("persistentvolume {volume_name:?} of persistentvolumeclaim {name:?} not found"))?;
    place(&claim, &volume).map_err(|why| format!("persistentvolume {volume_name:?}: {why}"))
}

/// The name of the volume, if the claim is bound and here to stay.
fn volume_of(claim: &PersistentVolumeClaim) -> Result<&str, String> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Err("is being deleted".to_owned());
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    volume.filter(|_| phase == "Bound").ok_or_else(|| format!("is not bound (status.phase is {phase})"))
}

fn place(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<PathBuf, String> {
    let spec = volume.spec.clone().unwrap_or_default();
    let owner = spec.claim_ref.as_ref().and_then(|claim| claim.uid.as_ref());
    if owner != claim.metadata.uid.as_ref() {
        return Err("spec.claimRef names another claim".to_owned());
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err("spec.volumeMode Block is not supported on this node; supported is Filesystem".to_owned());
    }
    match (&spec.host_path, &spec.local) {
        (Some(host), _) => host_path::check(host).map(|()| PathBuf::from(&host.path)),
        (None, Some(local)) if local.fs_type.is_some() => {
            Err("spec.local.fsType is not supported on this node: spec.local.path must be a folder".to_owned())
        }
        // Nobody makes the folder: what is there was prepared.
        (None, Some(local)) if !Path::new(&local.path).is_dir() => {
            Err(format!("spec.local.path {}: there is no such folder on this node", local.path))
        }
        (None, Some(local)) => Ok(PathBuf::from(&local.path)),
        (None, None) => Err(unsupported(&spec)),
    }
}

fn unsupported(spec: &PersistentVolumeSpec) -> String {
    let fields = serde_json::to_value(spec).unwrap_or_default();
    let source = km_kube::storage::sources(&fields).next().map_or("no source", |(name, _)| name);
    format!("spec.{source} is not supported on this node; supported are spec.hostPath and spec.local")
}
