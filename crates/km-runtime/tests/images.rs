//! The image store: what it loads, pulls, shares and removes, and what it says when it cannot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod private_registry;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use km_runtime::{RuntimeError, images::ImageStore};
use serde_json::json;
use sha2::{Digest, Sha256};

fn sha(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// An image of two layers.
struct Image {
    layers: [Vec<u8>; 2],
    config: Vec<u8>,
}

impl Image {
    fn new(content: &[u8]) -> Self {
        let layers = [tar(&[("base", b"base")]), tar(&[("file", content)])];
        let diff_ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", sha(layer))).collect();
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": { "User": "web", "Cmd": ["x"] }, "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        Self { layers, config: config.to_string().into_bytes() }
    }

    fn id(&self) -> String {
        format!("sha256:{}", sha(&self.config))
    }

    fn docker_archive(&self, tag: &str) -> Vec<u8> {
        let manifest =
            json!([{ "Config": "config.json", "RepoTags": [tag], "Layers": ["0/layer.tar", "1/layer.tar"] }]);
        tar(&[
            ("config.json", &self.config),
            ("0/layer.tar", &self.layers[0]),
            ("1/layer.tar", &self.layers[1]),
            ("manifest.json", manifest.to_string().as_bytes()),
        ])
    }

    /// Manifest and blobs, layers compressed.
    fn oci(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let layers: Vec<Vec<u8>> = self.layers.iter().map(|layer| gzip(layer)).collect();
        let descriptor = |kind: &str, content: &[u8]| {
            json!({ "mediaType": format!("application/vnd.oci.image.{kind}"),
                    "digest": format!("sha256:{}", sha(content)), "size": content.len() })
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &self.config),
            "layers": layers.iter().map(|layer| descriptor("layer.v1.tar+gzip", layer)).collect::<Vec<_>>(),
        });
        let manifest = manifest.to_string().into_bytes();
        let mut blobs = layers;
        blobs.push(self.config.clone());
        blobs.push(manifest.clone());
        (manifest, blobs)
    }

    fn oci_layout(&self, name: &str) -> Vec<u8> {
        let (manifest, blobs) = self.oci();
        let index = json!({ "schemaVersion": 2, "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": format!("sha256:{}", sha(&manifest)),
            "size": manifest.len(), "annotations": { "io.containerd.image.name": name } }] });
        let paths: Vec<String> = blobs.iter().map(|blob| format!("blobs/sha256/{}", sha(blob))).collect();
        let mut files: Vec<(&str, &[u8])> =
            paths.iter().map(String::as_str).zip(blobs.iter().map(Vec::as_slice)).collect();
        let index = index.to_string();
        files.push(("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#));
        files.push(("index.json", index.as_bytes()));
        tar(&files)
    }
}

fn file(folder: &Path, content: &[u8]) -> PathBuf {
    let path = folder.join(sha(content));
    std::fs::write(&path, content).unwrap();
    path
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn archives_of_all_kinds_bring_the_same_image() {
    let folder = tempfile::tempdir().unwrap();
    let image = Image::new(b"content");
    let layout = image.oci_layout("example.com/app:v1");
    let unpacked = folder.path().join("layout");
    tar::Archive::new(&layout[..]).unpack(&unpacked).unwrap();
    for (number, (path, reference)) in [
        (file(folder.path(), &image.docker_archive("app")), "docker.io/library/app:latest"),
        (file(folder.path(), &gzip(&image.docker_archive("app:v1"))), "docker.io/library/app:v1"),
        (file(folder.path(), &layout), "example.com/app:v1"),
        (unpacked, "example.com/app:v1"),
    ]
    .into_iter()
    .enumerate()
    {
        let root = folder.path().join(format!("store-{number}"));
        let store = ImageStore::open(&root).unwrap();
        assert_eq!(store.load(&path).unwrap(), [reference]);
        let info = store.get(reference).unwrap().unwrap();
        assert_eq!((info.id.as_str(), info.user.as_str(), info.size), (image.id().as_str(), "web", 11));
        assert_eq!(store.list().unwrap(), std::slice::from_ref(&info));
        assert_eq!(store.get(&image.id()).unwrap(), Some(info));
        assert_eq!(entries(&root.join("tmp")), 0);
    }
}

#[test]
fn layers_are_shared_and_go_with_their_last_image() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = ImageStore::open(&root).unwrap();
    let (one, two) = (Image::new(b"one"), Image::new(b"two"));
    store.load(&file(folder.path(), &one.docker_archive("one"))).unwrap();
    store.load(&file(folder.path(), &one.docker_archive("again"))).unwrap();
    store.load(&file(folder.path(), &two.docker_archive("two"))).unwrap();
    assert_eq!(entries(&root.join("layers")), 3);
    assert!(store.remove("one").unwrap());
    assert!(!store.remove("one").unwrap(), "there is none any more");
    assert!(!store.remove("0123456789ab").unwrap() && store.remove("No Name").is_err());
    assert_eq!(store.get("one").unwrap(), None);
    assert_eq!(store.get("again").unwrap().unwrap().references, ["docker.io/library/again:latest"]);
    assert_eq!(entries(&root.join("layers")), 3);
    let short = one.id().trim_start_matches("sha256:")[..12].to_owned();
    assert!(store.remove(&short).unwrap(), "by the id that lists show");
    assert_eq!(entries(&root.join("layers")), 2);
    assert!(store.remove(&two.id()).unwrap());
    assert_eq!((entries(&root.join("layers")), store.list().unwrap().len()), (0, 0));
}

#[test]
fn many_processes_may_load_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let archive = file(folder.path(), &Image::new(b"same").docker_archive("same"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ImageStore::open(&root).unwrap().load(&archive).unwrap());
        }
    });
    assert_eq!((entries(&root.join("layers")), entries(&root.join("tmp"))), (2, 0));
}

#[test]
fn damaged_archives_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = ImageStore::open(&root).unwrap();
    let mut damaged = Image::new(b"content");
    damaged.layers[1] = tar(&[("file", b"other content")]);
    for (archive, reason) in [
        (damaged.docker_archive("x"), "is damaged"),
        (tar(&[("x", b"y")]), "neither an OCI layout"),
        (Image::new(b"content").docker_archive("Bad Name"), "invalid image reference"),
    ] {
        let error = store.load(&file(folder.path(), &archive)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!((entries(&root.join("tmp")), store.list().unwrap().len()), (0, 0));
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_no_half_image() {
    assert!(nix::unistd::geteuid().is_root(), "this test mounts a small disk, which needs root");
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    rustix::mount::mount("small", &disk, "tmpfs", rustix::mount::MountFlags::empty(), Some(c"size=256k")).unwrap();
    let result = std::panic::catch_unwind(|| {
        let store = ImageStore::open(&disk).unwrap();
        let layout = folder.path().join("layout");
        tar::Archive::new(&Image::new(&vec![7; 1 << 20]).oci_layout("big")[..]).unpack(&layout).unwrap();
        let error = store.load(&layout).unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
        assert_eq!((entries(&disk.join("tmp")), store.list().unwrap().len()), (0, 0));
        let small = file(folder.path(), &Image::new(b"small").docker_archive("small"));
        assert_eq!(store.load(&small).unwrap().len(), 1);
    });
    rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::DETACH).unwrap();
    result.unwrap();
}

/// A registry that has one image.
async fn registry(image: &Image) -> std::net::SocketAddr {
    let (manifest, blobs) = image.oci();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |uri: axum::http::Uri| {
        let path = uri.path().to_owned();
        let digest = path.rsplit(':').next().unwrap().to_owned();
        let (status, kind, body) = if path == "/v2/" {
            (200, "application/json", b"{}".to_vec())
        } else if path == "/v2/team/app/manifests/v1" {
            (200, "application/vnd.oci.image.manifest.v1+json", manifest.clone())
        } else if let Some(blob) = blobs.iter().find(|blob| sha(blob) == digest) {
            (200, "application/octet-stream", blob.clone())
        } else {
            let error =
                json!({ "errors": [{ "code": "MANIFEST_UNKNOWN", "message": "manifest unknown", "detail": null }] });
            (404, "application/json", error.to_string().into_bytes())
        };
        async move {
            axum::http::Response::builder()
                .status(status)
                .header("content-type", kind)
                .body(axum::body::Body::from(body))
                .unwrap()
        }
    };
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await.unwrap() });
    address
}

#[tokio::test]
async fn images_are_pulled_from_a_registry_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let store = ImageStore::open(folder.path()).unwrap();
    let image = Image::new(b"pulled");
    let address = registry(&image).await;
    let reference = format!("{address}/team/app:v1");
    let info = store.pull(&reference, None).await.unwrap();
    assert_eq!((info.id.as_str(), &info.references), (image.id().as_str(), &vec![reference.clone()]));
    assert_eq!(store.pull(&reference, None).await.unwrap(), info, "all layers are there");
    assert_eq!(entries(&folder.path().join("tmp")), 0);
}

#[tokio::test]
async fn failed_pulls_name_registry_reference_and_cause() {
    let folder = tempfile::tempdir().unwrap();
    let store = ImageStore::open(folder.path()).unwrap();
    let address = registry(&Image::new(b"x")).await;
    let error = store.pull(&format!("{address}/team/app:v2"), None).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::Pull { .. }));
    let text = error.to_string();
    assert!(text.contains(&format!("registry {address}")) && text.contains("team/app:v2"), "{text}");
    assert!(text.to_lowercase().contains("manifest"), "{text}");
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let text = store.pull(&format!("{closed}/app"), None).await.unwrap_err().to_string();
    assert!(text.contains("Connection refused"), "{text}");
    assert!(matches!(store.pull("Bad Name", None).await, Err(RuntimeError::InvalidReference { .. })));
}

#[test]
fn built_in_images_are_there_and_small() {
    let folder = tempfile::tempdir().unwrap();
    let names = km_runtime::builtin::ensure(folder.path()).unwrap();
    assert_eq!(names, km_runtime::builtin::ensure(folder.path()).unwrap());
    let store = ImageStore::open(folder.path()).unwrap();
    for name in [km_runtime::builtin::HELLO, km_runtime::builtin::PAUSE] {
        let info = store.get(name).unwrap().unwrap();
        assert!(info.size < 2 << 20, "{name}: {} bytes", info.size);
        assert_eq!(info.references, [name]);
    }
}
