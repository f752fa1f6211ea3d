//! The image store of a host, shared by all agents on it: unpacked layers by diff id, images by configuration digest,
//! references to them.
//!
//! ```text
//! lock                        held while the index changes
//! index.json                  reference -> image id
//! images/<hex>.json           Image
//! images/<hex>.lock           shared lock of everything that runs the image
//! layers/<20 hex digits>/     `diff-id` (whole), `size`, `d/` (the files, as an overlayfs lower folder)
//! tmp/                        what is not finished; renamed into place when it is
//! ```
//! A layer or image appears by one rename, so that a crash or a full disk leaves no half image.

mod archive;
pub(crate) mod create;
mod layer;
mod pull;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    ImageInfo, RegistryAuth, Result, RuntimeError,
    bundle::ImageConfig,
    files::{Context, lock, open_lock, read_json, remove_tree, write_json},
    reference::Reference,
};

/// Digits of a diff id that name a layer's folder: short, so that many layers fit into one mount option, and long
/// enough (80 bits) that two layers never share it by accident; by intent is checked.
const LAYER_NAME_LENGTH: usize = 20;

/// An unpacked image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Image {
    /// `sha256:…` of the configuration.
    pub id: String,
    /// Diff ids, lowest layer first.
    pub layers: Vec<String>,
    /// Bytes of the unpacked layers.
    pub size: u64,
    pub config: ImageConfig,
}

impl Image {
    /// Names of the layers' folders for overlayfs, topmost first.
    pub fn overlay_layers(&self) -> Vec<String> {
        self.layers.iter().rev().map(|diff_id| format!("{}/d", layer_name(diff_id))).collect()
    }
}

/// The part of an OCI image configuration that is read here.
#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    config: Option<ImageConfig>,
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// A store in a folder. Cheap to clone; any number of processes may use the same folder.
#[derive(Clone, Debug)]
pub struct ImageStore {
    root: PathBuf,
    registry_certs: PathBuf,
}

/// Where Docker looks for the authorities of registries.
const REGISTRY_CERTS: &str = "/etc/docker/certs.d";

impl ImageStore {
    /// Opens the store, making the folder when needed. Blocking.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(root: &Path) -> Result<Self> {
        for folder in ["images", "layers", "tmp"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).context(|| format!("making {}", folder.display()))?;
        }
        let root = root.canonicalize().context(|| format!("opening the image store {}", root.display()))?;
        Ok(Self { root, registry_certs: REGISTRY_CERTS.into() })
    }

    /// The store, with the authorities of registries in this folder: `HOST[:PORT]/*.crt` in PEM form, beside those that
    /// everybody trusts. A registry of this machine that has one is asked by HTTPS.
    pub fn trusting(self, registry_certs: &Path) -> Self {
        Self { registry_certs: registry_certs.to_owned(), ..self }
    }

    fn registry_certs(&self) -> &Path {
        &self.registry_certs
    }

    pub(crate) fn layer_root(&self) -> PathBuf {
        self.root.join("layers")
    }

    pub(crate) fn image_lock(&self, id: &str) -> PathBuf {
        self.root.join("images").join(format!("{}.lock", hex(id)))
    }

    fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    fn image_path(&self, id: &str) -> PathBuf {
        self.root.join("images").join(format!("{}.json", hex(id)))
    }

    fn index(&self) -> io::Result<BTreeMap<String, String>> {
        Ok(read_json(&self.root.join("index.json"))?.unwrap_or_default())
    }

    /// The image of a reference or of an image id. Blocking.
    pub(crate) fn find(&self, reference: &str) -> Result<Option<Image>> {
        let reading = || "reading the image index".to_owned();
        let id = if hex(reference).len() == 64 && reference.starts_with("sha256:") {
            reference.to_owned()
        } else {
            let wanted = Reference::from_str(reference)?.to_string();
            match self.index().context(reading)?.remove(&wanted) {
                Some(id) => id,
                None => return Ok(None),
            }
        };
        read_json(&self.image_path(&id)).context(reading)
    }

    /// Blocking.
    pub fn get(&self, reference: &str) -> Result<Option<ImageInfo>> {
        let Some(image) = self.find(reference)? else { return Ok(None) };
        let index = self.index().context(|| "reading the image index".to_owned())?;
        Ok(Some(info(&image, &index)))
    }

    /// Blocking.
    pub fn list(&self) -> Result<Vec<ImageInfo>> {
        let listing = || "listing images".to_owned();
        let index = self.index().context(listing)?;
        let ids: BTreeSet<&String> = index.values().collect();
        let mut images = Vec::new();
        for id in ids {
            if let Some(image) = read_json::<Image>(&self.image_path(id)).context(listing)? {
                images.push(info(&image, &index));
            }
        }
        Ok(images)
    }

    /// Removes a reference, and the image when that was its last one and nothing runs it; or all references of an id,
    /// which may be as short as lists show it. Answers whether there was any. Blocking.
    ///
    /// # Errors
    /// An invalid reference, or the disk. An absent reference is none.
    pub fn remove(&self, reference: &str) -> Result<bool> {
        let removing = || format!("removing image {reference:?}");
        let _lock = lock(&self.root.join("lock")).context(removing)?;
        let mut index = self.index().context(removing)?;
        let before = index.len();
        let name = Reference::from_str(reference).map(|name| name.to_string());
        if name.as_ref().is_ok_and(|name| index.remove(name).is_some()) {
            // A name may look like an id: it comes first.
        } else if is_id(reference) {
            index.retain(|_, id| !hex(id).starts_with(hex(reference)));
        } else {
            name?;
        }
        let removed = index.len() < before;
        write_json(&self.root.join("index.json"), &index).context(removing)?;
        self.collect(&index).context(removing)?;
        Ok(removed)
    }

    /// Removes images without reference that nothing runs, then layers without image. The index lock is held.
    fn collect(&self, index: &BTreeMap<String, String>) -> io::Result<()> {
        let mut used_layers = BTreeSet::new();
        for entry in fs::read_dir(self.root.join("images"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let Some(image) = read_json::<Image>(&path)? else { continue };
            let lock_path = self.image_lock(&image.id);
            let lock = open_lock(&lock_path)?;
            let running = !crate::files::try_lock(&lock)?;
            if running || index.values().any(|id| *id == image.id) {
                used_layers.extend(image.layers.iter().map(|diff_id| layer_name(diff_id)));
            } else {
                remove_tree(&path)?;
                remove_tree(&lock_path)?;
            }
        }
        for entry in fs::read_dir(self.layer_root())? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| used_layers.contains(name)) {
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Records an image whose layers are unpacked, under references that are already normalised. Blocking.
    fn register(&self, config: &[u8], references: &[Reference], staged: &StagedLayers) -> Result<ImageInfo> {
        let storing = || "storing the image".to_owned();
        let id = format!("sha256:{:x}", Sha256::digest(config));
        let file: ConfigFile = serde_json::from_slice(config)
            .map_err(|error| RuntimeError::Other(format!("the image's configuration cannot be read: {error}")))?;
        let _lock = lock(&self.root.join("lock")).context(storing)?;
        let mut size = 0;
        for diff_id in &file.rootfs.diff_ids {
            staged.commit(self, diff_id)?;
            let layer = self.layer_root().join(layer_name(diff_id));
            size += read_json::<u64>(&layer.join("size")).context(storing)?.unwrap_or(0);
        }
        let image =
            Image { id: id.clone(), layers: file.rootfs.diff_ids, size, config: file.config.unwrap_or_default() };
        write_json(&self.image_path(&id), &image).context(storing)?;
        let mut index = self.index().context(storing)?;
        for reference in references {
            index.insert(reference.to_string(), id.clone());
        }
        write_json(&self.root.join("index.json"), &index).context(storing)?;
        Ok(info(&image, &index))
    }

    /// Fetches an image from its registry.
    ///
    /// # Errors
    /// `Pull` with registry and cause; `InvalidReference`.
    pub async fn pull(&self, reference: &str, auth: Option<RegistryAuth>) -> Result<ImageInfo> {
        pull::pull(self, reference, auth).await
    }

    /// Loads an OCI layout (folder or tar) or a docker archive; returns the references it brought. Blocking.
    ///
    /// # Errors
    /// The file is neither, or is damaged, or the disk is full; then nothing is stored.
    pub fn load(&self, file: &Path) -> Result<Vec<String>> {
        archive::load(self, file)
    }

    pub(crate) fn has_layer(&self, diff_id: &str) -> bool {
        self.layer_root().join(layer_name(diff_id)).join("diff-id").is_file()
    }
}

/// Layers that are unpacked but not yet part of the store; dropped, they vanish.
#[derive(Default)]
pub(crate) struct StagedLayers(BTreeMap<String, tempfile::TempDir>);

impl StagedLayers {
    /// Unpacks a layer unless the store has it. `expected` is its diff id when known.
    fn add(&mut self, store: &ImageStore, expected: Option<&str>, tar: impl io::Read) -> Result<()> {
        if expected.is_some_and(|diff_id| store.has_layer(diff_id) || self.0.contains_key(diff_id)) {
            return Ok(());
        }
        let unpacking = || format!("unpacking layer {} into {}", expected.unwrap_or("?"), store.root.display());
        let folder = tempfile::Builder::new().prefix("layer-").tempdir_in(store.temporary()).context(unpacking)?;
        let unpacked = layer::unpack(tar, &folder.path().join("d")).context(unpacking)?;
        if let Some(expected) = expected
            && expected != unpacked.diff_id
        {
            return Err(RuntimeError::Other(format!(
                "layer {expected} is damaged: its content has the digest {}",
                unpacked.diff_id
            )));
        }
        write_json(&folder.path().join("size"), &unpacked.size).context(unpacking)?;
        fs::write(folder.path().join("diff-id"), &unpacked.diff_id).context(unpacking)?;
        rustix::fs::chmod(folder.path(), rustix::fs::Mode::from_raw_mode(0o755))
            .map_err(io::Error::from)
            .context(unpacking)?;
        self.0.insert(unpacked.diff_id, folder);
        Ok(())
    }

    /// Moves a layer into the store. Called under the index lock, so nobody collects it meanwhile.
    fn commit(&self, store: &ImageStore, diff_id: &str) -> Result<()> {
        let target = store.layer_root().join(layer_name(diff_id));
        let storing = || format!("storing layer {diff_id}");
        if let Ok(present) = fs::read_to_string(target.join("diff-id")) {
            if present == diff_id {
                return Ok(());
            }
            return Err(RuntimeError::Other(format!("layer {diff_id} cannot be told from {present} by its name")));
        }
        let Some(folder) = self.0.get(diff_id) else {
            return Err(RuntimeError::Other(format!("the image lacks its layer {diff_id}")));
        };
        remove_tree(&target).context(storing)?;
        fs::rename(folder.path(), &target).context(storing)
    }
}

/// Holds the image against removal while the returned file is open. Blocking, at most for a removal that runs.
pub(crate) fn hold(image_lock: &Path) -> io::Result<fs::File> {
    let file = open_lock(image_lock)?;
    flock(&file, FlockOperation::LockShared)?;
    Ok(file)
}

fn info(image: &Image, index: &BTreeMap<String, String>) -> ImageInfo {
    ImageInfo {
        id: image.id.clone(),
        references: index.iter().filter(|(_, id)| **id == image.id).map(|(name, _)| name.clone()).collect(),
        size: image.size,
        user: image.config.user.clone(),
    }
}

/// Whether it may be the id of an image, or its beginning.
fn is_id(reference: &str) -> bool {
    let digits = hex(reference);
    digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn hex(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

fn layer_name(diff_id: &str) -> String {
    hex(diff_id).chars().take(LAYER_NAME_LENGTH).filter(char::is_ascii_alphanumeric).collect()
}
