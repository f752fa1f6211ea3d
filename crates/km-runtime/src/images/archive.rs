//! Loads images from files: an OCI layout as a folder or tar, or a docker archive (`docker save`).

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::{ConfigFile, ImageStore, StagedLayers};
use crate::{Result, RuntimeError, files::Context, reference::Reference};

/// Configurations and manifests are small; a file that claims otherwise is damaged.
const MAX_METADATA: u64 = 8 << 20;

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: PathBuf,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<PathBuf>,
}

pub fn load(store: &ImageStore, file: &Path) -> Result<Vec<String>> {
    let loading = || format!("loading {}", file.display());
    let unpacked;
    let folder = if file.is_dir() {
        file
    } else {
        unpacked = tempfile::Builder::new().prefix("load-").tempdir_in(store.temporary()).context(loading)?;
        unpack_archive(file, unpacked.path()).context(loading)?;
        unpacked.path()
    };
    let loaded = if folder.join("index.json").is_file() {
        load_layout(store, folder)
    } else if folder.join("manifest.json").is_file() {
        load_docker(store, folder)
    } else {
        Err(RuntimeError::Other("neither an OCI layout (index.json) nor a docker archive (manifest.json)".to_owned()))
    };
    loaded.map_err(|error| RuntimeError::Other(format!("{}: {error}", loading())))
}

fn unpack_archive(file: &Path, folder: &Path) -> io::Result<()> {
    let mut start = [0; 2];
    let length = File::open(file)?.read(&mut start)?;
    let input = io::BufReader::new(File::open(file)?);
    let mut archive: tar::Archive<Box<dyn Read>> = if start[..length] == [0x1f, 0x8b] {
        tar::Archive::new(Box::new(MultiGzDecoder::new(input)))
    } else {
        tar::Archive::new(Box::new(input))
    };
    archive.set_preserve_mtime(false);
    archive.unpack(folder)
}

fn load_layout(store: &ImageStore, folder: &Path) -> Result<Vec<String>> {
    let index: Index = read_metadata(folder, Path::new("index.json"))?;
    let mut brought = Vec::new();
    for entry in &index.manifests {
        let manifest = resolve(folder, entry)?;
        let config = read_blob(folder, &manifest.config.digest)?;
        let layers: Vec<PathBuf> =
            manifest.layers.iter().map(|layer| blob_path(&layer.digest)).collect::<Result<_>>()?;
        let names: Vec<String> = entry
            .annotations
            .get("io.containerd.image.name")
            .or_else(|| entry.annotations.get("org.opencontainers.image.ref.name"))
            .cloned()
            .into_iter()
            .collect();
        brought.extend(store_image(store, folder, &config, &layers, &names)?);
    }
    Ok(brought)
}

/// Follows a list of platforms to the manifest of this one.
fn resolve(folder: &Path, descriptor: &Descriptor) -> Result<Manifest> {
    let path = blob_path(&descriptor.digest)?;
    if !descriptor.media_type.ends_with("image.index.v1+json")
        && !descriptor.media_type.ends_with("manifest.list.v2+json")
    {
        return read_metadata(folder, &path);
    }
    let index: Index = read_metadata(folder, &path)?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |entry: &&Descriptor| {
        entry.platform.as_ref().is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture)
    };
    let entry = index.manifests.iter().find(fits);
    let entry = entry.ok_or_else(|| RuntimeError::Other(format!("no image for linux/{architecture} in it")))?;
    read_metadata(folder, &blob_path(&entry.digest)?)
}

fn load_docker(store: &ImageStore, folder: &Path) -> Result<Vec<String>> {
    let images: Vec<DockerImage> = read_metadata(folder, Path::new("manifest.json"))?;
    let mut brought = Vec::new();
    for image in images {
        let config = read_file(folder, &image.config)?;
        let names = image.repo_tags.unwrap_or_default();
        brought.extend(store_image(store, folder, &config, &image.layers, &names)?);
    }
    Ok(brought)
}

fn store_image(
    store: &ImageStore,
    folder: &Path,
    config: &[u8],
    layers: &[PathBuf],
    names: &[String],
) -> Result<Vec<String>> {
    let file: ConfigFile = serde_json::from_slice(config)
        .map_err(|error| RuntimeError::Other(format!("the image's configuration cannot be read: {error}")))?;
    if file.rootfs.diff_ids.len() != layers.len() {
        return Err(RuntimeError::Other(format!(
            "the configuration names {} layers, the manifest {}",
            file.rootfs.diff_ids.len(),
            layers.len()
        )));
    }
    let references: Vec<Reference> = names.iter().map(|name| Reference::from_str(name)).collect::<Result<_>>()?;
    let mut staged = StagedLayers::default();
    for (diff_id, layer) in file.rootfs.diff_ids.iter().zip(layers) {
        let input = open_inside(folder, layer)?;
        staged.add(store, Some(diff_id), input)?;
    }
    let info = store.register(config, &references, &staged)?;
    Ok(if references.is_empty() { vec![info.id] } else { references.iter().map(ToString::to_string).collect() })
}

fn blob_path(digest: &str) -> Result<PathBuf> {
    match digest.split_once(':') {
        Some((algorithm, hex))
            if [algorithm, hex].iter().all(|part| part.chars().all(|c| c.is_ascii_alphanumeric())) =>
        {
            Ok(Path::new("blobs").join(algorithm).join(hex))
        }
        _ => Err(RuntimeError::Other(format!("{digest:?} is not a digest"))),
    }
}

fn read_blob(folder: &Path, digest: &str) -> Result<Vec<u8>> {
    read_file(folder, &blob_path(digest)?)
}

fn read_metadata<T: serde::de::DeserializeOwned>(folder: &Path, path: &Path) -> Result<T> {
    serde_json::from_slice(&read_file(folder, path)?)
        .map_err(|error| RuntimeError::Other(format!("{} cannot be read: {error}", path.display())))
}

fn read_file(folder: &Path, path: &Path) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    open_inside(folder, path)?
        .take(MAX_METADATA)
        .read_to_end(&mut content)
        .context(|| format!("reading {}", path.display()))?;
    Ok(content)
}

/// An archive may hold symbolic links; none of them may make us read a file outside.
fn open_inside(folder: &Path, path: &Path) -> Result<File> {
    let opening = || format!("opening {} of the image", path.display());
    let real = folder.join(path).canonicalize().context(opening)?;
    let root = folder.canonicalize().context(opening)?;
    if !real.starts_with(&root) {
        return Err(RuntimeError::Other(format!("{} leads out of the archive", path.display())));
    }
    File::open(real).context(opening)
}
