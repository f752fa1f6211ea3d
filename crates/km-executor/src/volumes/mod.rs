//! The pod's volumes as folders on the host.
//!
//! Under `<pod>/volumes/<name>`. Supported: emptyDir (also in memory), configMap, secret, downwardAPI, projected,
//! hostPath, and claims to persistent volumes that are folders of the host. An emptyDir's `sizeLimit` is not enforced, except in memory. Content that comes from the API server is
//! refreshed while the pod runs; files change all at once, by the switch of a link.

mod claims;
mod content;
mod host_path;
pub mod sources;
#[cfg(test)]
mod tests;
mod tree;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
    sync::{Arc, PoisonError},
};

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Pod, Volume};
use km_kube::quantity::Quantity;
use km_pod::{downward::NodeFacts, expand::expand};
use km_runtime::Mount;
use tokio::sync::Mutex;

use crate::api::{Api, PodKey};

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("volume {volume:?}: {message}")]
    Volume { volume: String, message: String },
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> VolumeError + '_ {
    move |source| VolumeError::Io { path: path.to_owned(), source }
}

/// The volumes of one pod.
pub struct Volumes {
    api: Arc<dyn Api>,
    facts: NodeFacts,
    key: PodKey,
    dir: PathBuf,
    /// One change at a time.
    turn: Mutex<content::Tokens>,
    /// The folders behind volumes that are claims, by the volume's name, once they are known.
    claimed: std::sync::Mutex<BTreeMap<String, PathBuf>>,
}

impl Volumes {
    /// `dir` is the pod's own folder.
    pub fn new(api: Arc<dyn Api>, facts: NodeFacts, key: PodKey, dir: PathBuf) -> Self {
        Self { api, facts, key, dir, turn: Mutex::default(), claimed: std::sync::Mutex::default() }
    }

    fn path(&self, volume: &str) -> PathBuf {
        self.dir.join("volumes").join(volume)
    }

    /// Makes all volumes. May be repeated.
    ///
    /// # Errors
    /// What is missing or not supported, with the volume's name.
    pub async fn mount(&self, pod: &Pod) -> Result<(), VolumeError> {
        let mut tokens = self.turn.lock().await;
        for volume in volumes(pod) {
            let path = self.path(&volume.name);
            if let Some(empty) = &volume.empty_dir {
                make_empty_dir(&path, empty)?;
            } else if let Some(host) = &volume.host_path {
                host_path::check(host).map_err(|message| self.error(volume, message))?;
            } else if let Some(claim) = &volume.persistent_volume_claim {
                let found = claims::folder(&*self.api, &self.key.namespace, &claim.claim_name).await;
                let folder = found.map_err(|message| self.error(volume, message))?;
                let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
                claimed.insert(volume.name.clone(), folder);
            } else {
                let files = self.files(pod, volume, &mut tokens).await?;
                tree::write(&path, &files).map_err(io_error(&path))?;
            }
        }
        Ok(())
    }

    /// Brings what comes from the API server up to date.
    ///
    /// # Errors
    /// As [`Volumes::mount`]; the old content stays.
    pub async fn refresh(&self, pod: &Pod) -> Result<(), VolumeError> {
        let mut tokens = self.turn.lock().await;
        for volume in volumes(pod).filter(|volume| content::is_from_api(volume)) {
            let path = self.path(&volume.name);
            // Not mounted yet, or removed already.
            if path.exists() {
                let files = self.files(pod, volume, &mut tokens).await?;
                tree::write(&path, &files).map_err(io_error(&path))?;
            }
        }
        Ok(())
    }

    async fn files(
        &self,
        pod: &Pod,
        volume: &Volume,
        tokens: &mut content::Tokens,
    ) -> Result<Vec<tree::File>, VolumeError> {
        let source = content::Source { api: &*self.api, facts: &self.facts, key: &self.key, pod };
        source.files(volume, tokens).await.map_err(|message| self.error(volume, message))
    }

    /// Where a volume is on the host.
    fn base(&self, volume: &Volume) -> Result<PathBuf, String> {
        if let Some(host) = &volume.host_path {
            return Ok(PathBuf::from(&host.path));
        }
        if volume.persistent_volume_claim.is_none() {
            return Ok(self.path(&volume.name));
        }
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.get(&volume.name).cloned().ok_or_else(|| "its claim isn't mounted yet".to_owned())
    }

    fn error(&self, volume: &Volume, message: String) -> VolumeError {
        VolumeError::Volume { volume: volume.name.clone(), message }
    }

    /// Removes all volumes with their content (but not what a hostPath names).
    ///
    /// # Errors
    /// Something is still in use or cannot be removed.
    pub async fn remove(&self) -> Result<(), VolumeError> {
        let _turn = self.turn.lock().await;
        let root = self.dir.join("volumes");
        tokio::task::spawn_blocking(move || remove_all(&root))
            .await
            .unwrap_or_else(|error| Err(VolumeError::Io { path: PathBuf::new(), source: io::Error::other(error) }))
    }

    /// The mounts of a container. `env` is what `subPathExpr` may refer to.
    ///
    /// # Errors
    /// A mount names no volume of the pod, or a path that leads out of it.
    pub fn mounts(
        &self,
        pod: &Pod,
        container: &Container,
        env: &[(String, String)],
    ) -> Result<Vec<Mount>, VolumeError> {
        let lookup = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        container
            .volume_mounts
            .iter()
            .flatten()
            .map(|mount| {
                let fail = |message: String| VolumeError::Volume { volume: mount.name.clone(), message };
                let volume = volumes(pod).find(|volume| volume.name == mount.name);
                let volume = volume.ok_or_else(|| fail("the pod has no such volume".into()))?;
                let base = self.base(volume).map_err(fail)?;
                let sub_path = match (&mount.sub_path, &mount.sub_path_expr) {
                    (Some(path), _) if !path.is_empty() => Some(path.clone()),
                    (_, Some(expression)) if !expression.is_empty() => Some(expand(expression, lookup)),
                    _ => None,
                };
                let host_path = match sub_path {
                    Some(sub_path) => inner(&base, &sub_path).map_err(fail)?,
                    None => base,
                };
                Ok(Mount {
                    host_path,
                    container_path: PathBuf::from(&mount.mount_path),
                    read_only: mount.read_only == Some(true) || is_read_only(volume),
                })
            })
            .collect()
    }
}

/// Whether all mounts of a volume are read-only, whatever they say.
fn is_read_only(volume: &Volume) -> bool {
    let claim = volume.persistent_volume_claim.as_ref();
    content::is_from_api(volume) || claim.is_some_and(|claim| claim.read_only == Some(true))
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// A path inside a volume; made as a folder when it isn't there.
fn inner(base: &Path, sub_path: &str) -> Result<PathBuf, String> {
    let relative = Path::new(sub_path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("subPath {sub_path:?} must be relative and must not contain \"..\""));
    }
    let path = base.join(relative);
    if !path.exists() {
        fs::create_dir_all(&path).map_err(|error| format!("subPath {sub_path:?}: {error}"))?;
    }
    // A link inside the volume must not lead out of it.
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("subPath {sub_path:?}: {error}"));
    let (real_base, real_path) = (real(base)?, real(&path)?);
    if real_path.starts_with(&real_base) {
        Ok(real_path)
    } else {
        Err(format!("subPath {sub_path:?} leads out of the volume"))
    }
}

fn make_empty_dir(path: &Path, empty: &EmptyDirVolumeSource) -> Result<(), VolumeError> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(io_error(path))?;
    if empty.medium.as_deref() == Some("Memory") {
        let limit = empty.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
        let size = limit.map_or(String::new(), |limit| format!(",size={}", limit.value()));
        let options = std::ffi::CString::new(format!("mode=0777{size}")).unwrap_or_default();
        rustix::mount::mount("tmpfs", path, "tmpfs", rustix::mount::MountFlags::empty(), options.as_c_str())
            .map_err(|error| VolumeError::Io { path: path.to_owned(), source: error.into() })?;
    }
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).map_err(io_error(path))
}

fn remove_all(root: &Path) -> Result<(), VolumeError> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(root)(error)),
    };
    for entry in entries {
        let path = entry.map_err(io_error(root))?.path();
        // Only a volume in memory is a mount; the others say so and are left to the removal below.
        if let Err(error) = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::NOFOLLOW)
            && !matches!(error, rustix::io::Errno::INVAL | rustix::io::Errno::PERM)
        {
            return Err(VolumeError::Io { path, source: error.into() });
        }
    }
    fs::remove_dir_all(root).map_err(io_error(root))
}

/// Unmounts what earlier pods left mounted below the folder of all pods.
pub fn purge(pods: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(pods) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        remove_all(&entry?.path().join("volumes")).map_err(io::Error::other)?;
    }
    Ok(())
}
