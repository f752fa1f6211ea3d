//! Volumes on a real file system.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, from_value, json};
use tempfile::TempDir;

use super::{tree::File, *};
use crate::tests::api::FakeApi;

fn file(path: &str, content: &str) -> File {
    File { path: path.into(), mode: 0o644, content: content.as_bytes().to_vec() }
}

#[test]
fn files_change_all_at_once_and_old_ones_go() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("v");
    tree::write(&root, &[file("a", "1"), file("sub/b", "2")]).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "1");
    assert_eq!(fs::read_to_string(root.join("sub/b")).unwrap(), "2");
    let first = fs::read_link(root.join("..data")).unwrap();
    tree::write(&root, &[file("a", "1"), file("sub/b", "2")]).unwrap();
    assert_eq!(fs::read_link(root.join("..data")).unwrap(), first, "nothing changed, nothing is written");
    tree::write(&root, &[file("a", "9"), file("c", "3")]).unwrap();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "9");
    let shown: BTreeSet<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with(".."))
        .collect();
    assert_eq!(shown, BTreeSet::from(["a".to_owned(), "c".to_owned()]));
    assert!(!root.join(first).exists());
}

#[test]
fn paths_stay_inside() {
    for (path, safe) in
        [("a", true), ("a/b", true), ("", false), ("/a", false), ("..", false), ("a/../b", false), ("..x", false)]
    {
        assert_eq!(tree::is_safe(path), safe, "{path}");
    }
}

struct Case {
    dir: TempDir,
    volumes: Volumes,
    pod: Pod,
}

fn case(api: FakeApi, volume: Value, mount: Value) -> Case {
    let dir = TempDir::new().unwrap();
    let pod: Pod = from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1"}},
        "spec": {"volumes": [volume], "containers": [{"name": "c", "volumeMounts": [mount]}]}}))
    .unwrap();
    let key = PodKey::of(&pod);
    let volumes = Volumes::new(Arc::new(api), NodeFacts::default(), key, dir.path().to_owned());
    Case { dir, volumes, pod }
}

impl Case {
    fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join("volumes/v").join(relative)
    }

    fn mounts(&self) -> Result<Vec<Mount>, VolumeError> {
        let container = &self.pod.spec.as_ref().unwrap().containers[0];
        self.volumes.mounts(&self.pod, container, &[("E".into(), "x".into())])
    }
}

#[tokio::test]
async fn config_maps_are_written_with_modes_and_refreshed() {
    let api = FakeApi::default();
    api.put_config_map("n", "m", &[("k", "one"), ("other", "x")]);
    let volume =
        json!({"name": "v", "configMap": {"name": "m", "defaultMode": 0o600, "items": [{"key": "k", "path": "d/f"}]}});
    let case = case(api.clone(), volume, json!({"name": "v", "mountPath": "/v"}));
    case.volumes.mount(&case.pod).await.unwrap();
    assert_eq!(fs::read_to_string(case.path("d/f")).unwrap(), "one");
    assert_eq!(fs::metadata(case.path("d/f")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!case.path("other").exists());
    assert!(case.mounts().unwrap()[0].read_only);
    api.put_config_map("n", "m", &[("k", "two")]);
    case.volumes.refresh(&case.pod).await.unwrap();
    assert_eq!(fs::read_to_string(case.path("d/f")).unwrap(), "two");
    case.volumes.remove().await.unwrap();
    assert!(!case.path("").exists());
    case.volumes.remove().await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let mount = || json!({"name": "v", "mountPath": "/v"});
    for (volume, reason) in [
        (json!({"name": "v", "configMap": {"name": "m"}}), "volume \"v\": configmap \"m\" not found"),
        (json!({"name": "v", "secret": {"secretName": "s"}}), "volume \"v\": secret \"s\" not found"),
        (
            json!({"name": "v", "hostPath": {"path": "/nowhere/at/all", "type": "Directory"}}),
            "volume \"v\": hostPath /nowhere/at/all",
        ),
        (json!({"name": "v", "nfs": {"server": "s", "path": "/"}}), "volume \"v\": nfs is not supported on this node"),
    ] {
        let case = case(FakeApi::default(), volume, mount());
        let error = case.volumes.mount(&case.pod).await.unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    let optional = json!({"name": "v", "secret": {"secretName": "s", "optional": true}});
    let case = case(FakeApi::default(), optional, mount());
    case.volumes.mount(&case.pod).await.unwrap();
    assert!(case.path("").is_dir());
}

#[tokio::test]
async fn projected_sources_share_a_folder() {
    let api = FakeApi::default();
    api.put_config_map("n", "m", &[("k", "one")]);
    let volume = json!({"name": "v", "projected": {"sources": [
        {"configMap": {"name": "m"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token"}}]}});
    let case = case(api, volume, json!({"name": "v", "mountPath": "/v"}));
    case.volumes.mount(&case.pod).await.unwrap();
    for (path, content) in [("k", "one"), ("labels", "a=\"1\""), ("token", "token-of-default")] {
        assert_eq!(fs::read_to_string(case.path(path)).unwrap(), content);
    }
}

#[tokio::test]
async fn sub_paths_are_made_and_stay_inside() {
    let empty = || json!({"name": "v", "emptyDir": {}});
    let expanded = json!({"name": "v", "mountPath": "/v", "subPathExpr": "d/$(E)"});
    let case_of = |mount| case(FakeApi::default(), empty(), mount);
    let good = case_of(expanded);
    good.volumes.mount(&good.pod).await.unwrap();
    assert_eq!(good.mounts().unwrap()[0].host_path, good.path("d/x").canonicalize().unwrap());
    let bad = case_of(json!({"name": "v", "mountPath": "/v", "subPath": "../../etc"}));
    bad.volumes.mount(&bad.pod).await.unwrap();
    assert!(bad.mounts().is_err());
    let link = case_of(json!({"name": "v", "mountPath": "/v", "subPath": "out"}));
    link.volumes.mount(&link.pod).await.unwrap();
    std::os::unix::fs::symlink("/etc", link.path("out")).unwrap();
    assert!(link.mounts().unwrap_err().to_string().contains("leads out of the volume"));
}
