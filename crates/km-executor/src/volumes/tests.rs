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

/// A bound claim `c` of the namespace `n` to the volume `pv`, whose spec is given.
fn bound(volume: Value) -> FakeApi {
    let api = FakeApi::default();
    let claim =
        json!({"metadata": {"name": "c", "uid": "claim"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    api.put_claim("n", from_value(claim).unwrap());
    let mut spec = json!({"claimRef": {"namespace": "n", "name": "c", "uid": "claim"}});
    for (key, value) in volume.as_object().unwrap() {
        spec[key] = value.clone();
    }
    api.put_volume(from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap());
    api
}

fn claimed(read_only: bool) -> Value {
    json!({"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": read_only}})
}

#[tokio::test]
async fn claims_are_folders_of_the_host_that_outlive_the_pod() {
    let host = TempDir::new().unwrap();
    let (made, there) = (host.path().join("made"), host.path().join("there"));
    fs::create_dir(&there).unwrap();
    for (source, folder) in [(json!({"hostPath": {"path": made}}), &made), (json!({"local": {"path": there}}), &there)]
    {
        let mount = json!({"name": "v", "mountPath": "/v", "subPath": "inner"});
        let case = case(bound(source), claimed(false), mount);
        assert!(case.mounts().unwrap_err().to_string().contains("isn't mounted yet"));
        case.volumes.mount(&case.pod).await.unwrap();
        let mounts = case.mounts().unwrap();
        assert_eq!(mounts[0].host_path, folder.join("inner").canonicalize().unwrap());
        assert!(!mounts[0].read_only);
        fs::write(folder.join("file"), "kept").unwrap();
        case.volumes.remove().await.unwrap();
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "kept");
    }
    for (of_volume, of_mount, read_only) in [(true, false, true), (false, true, true), (false, false, false)] {
        let mount = json!({"name": "v", "mountPath": "/v", "readOnly": of_mount});
        let case = case(bound(json!({"local": {"path": there}})), claimed(of_volume), mount);
        case.volumes.mount(&case.pod).await.unwrap();
        assert_eq!(case.mounts().unwrap()[0].read_only, read_only);
    }
}

#[tokio::test]
async fn a_claim_that_can_not_be_mounted_says_why() {
    let host = json!({"hostPath": {"path": "/tmp"}});
    let of_claim = |change: fn(&mut Value)| {
        let api = bound(json!({"hostPath": {"path": "/tmp"}}));
        let mut claim = json!({"metadata": {"name": "c", "uid": "claim"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
        change(&mut claim);
        api.put_claim("n", from_value(claim).unwrap());
        api
    };
    let with = |name: &str, value: Value| {
        let mut spec = host.clone();
        spec[name] = value;
        bound(spec)
    };
    let table = [
        (FakeApi::default(), "persistentvolumeclaim \"c\" not found"),
        (
            of_claim(|c| c["status"]["phase"] = json!("Pending")),
            "persistentvolumeclaim \"c\" is not bound (status.phase is Pending)",
        ),
        (
            of_claim(|c| c["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            "persistentvolumeclaim \"c\" is being deleted",
        ),
        (
            of_claim(|c| c["spec"]["volumeName"] = json!("other")),
            "persistentvolume \"other\" of persistentvolumeclaim \"c\" not found",
        ),
        (
            of_claim(|c| c["metadata"]["uid"] = json!("later")),
            "persistentvolume \"pv\": spec.claimRef names another claim",
        ),
        (
            with("volumeMode", json!("Block")),
            "persistentvolume \"pv\": spec.volumeMode Block is not supported on this node; supported is Filesystem",
        ),
        (
            bound(json!({"nfs": {"server": "s", "path": "/"}})),
            "persistentvolume \"pv\": spec.nfs is not supported on this node; supported are spec.hostPath and spec.local",
        ),
        (
            bound(json!({"local": {"path": "/nowhere/at/all"}})),
            "persistentvolume \"pv\": spec.local.path /nowhere/at/all",
        ),
        (
            bound(json!({"local": {"path": "/tmp", "fsType": "ext4"}})),
            "persistentvolume \"pv\": spec.local.fsType is not",
        ),
    ];
    for (api, reason) in table {
        let case = case(api, claimed(false), json!({"name": "v", "mountPath": "/v"}));
        let error = case.volumes.mount(&case.pod).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("volume \"v\": {reason}")), "{error}");
    }
}
