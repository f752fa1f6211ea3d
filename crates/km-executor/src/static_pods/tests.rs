//! The rules of mirrors, and the folder of static pods.

use std::os::unix::fs::PermissionsExt;

use km_kube::keys;
use serde_json::{from_value, json};

use super::{
    mirror::{Verdict, judge},
    *,
};

fn pod(name: &str, image: &str) -> Pod {
    let meta = json!({"name": name, "annotations": {keys::STATIC_POD_FILENAME: format!("{name}.yaml")}});
    from_value(json!({"metadata": meta, "spec": {"containers": [{"name": "c", "image": image}]}})).unwrap()
}

/// What the API server has for a static pod.
fn mirror(pod: &Pod, uid: &str) -> Pod {
    let mut mirror = pod.clone();
    mirror.metadata.uid = Some(uid.into());
    let hash = mirror::hash(pod).to_owned();
    mirror.metadata.annotations.get_or_insert_default().insert(keys::MIRROR_POD.into(), hash);
    mirror
}

fn deleting(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    pod
}

#[test]
fn a_static_pod_is_one_of_its_node() {
    let here = on_node(pod("web", "x:1"), "node");
    assert_eq!(PodKey::of(&here).full_name(), "web-node_default");
    let annotations = here.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[keys::CONFIG_SOURCE], "file");
    assert_eq!(here.metadata.uid.as_deref(), Some(mirror::hash(&here)));
    assert_eq!(on_node(pod("web", "x:1"), "node"), here, "the same pod is the same");
    for other in [on_node(pod("web", "x:2"), "node"), on_node(pod("web", "x:1"), "node2")] {
        assert_ne!(other.metadata.uid, here.metadata.uid);
    }
}

#[test]
fn mirrors_are_made_kept_or_replaced() {
    let own = on_node(pod("web", "x:1"), "node");
    let older = mirror(&on_node(pod("web", "x:0"), "node"), "m0");
    let stranger = Pod { metadata: own.metadata.clone(), ..Default::default() };
    for (found, verdict) in [
        (None, Verdict::Create),
        (Some(mirror(&own, "m")), Verdict::Keep("m".into())),
        (Some(deleting(mirror(&own, "m"))), Verdict::Replace("m".into())),
        (Some(older), Verdict::Replace("m0".into())),
        (Some(stranger), Verdict::Foreign),
    ] {
        assert_eq!(judge(found.as_ref(), &own), verdict);
    }
}

#[test]
fn mirrors_follow_their_pods_and_no_others() {
    let own = on_node(pod("web", "x:1"), "node");
    let mut mirrors = Mirrors::default();
    mirrors.own(&own);
    let mut step = |change| mirrors.pod_changed(&change);
    let applied = |pod: Pod| PodChange::Applied(Box::new(pod));
    let delete = |pod: &Pod| vec![Step::Delete(PodKey::of(pod))];
    let publish = vec![Step::Publish { namespace: "default".into(), name: "web-node".into() }];
    assert!(step(applied(mirror(&own, "m"))).is_empty());
    // A pod of the API server, and one whose deletion is none of ours.
    assert!(step(applied(deleting(pod("task", "x")))).is_empty());
    assert!(step(PodChange::Gone("other".into())).is_empty());
    // Somebody deletes the mirror.
    assert_eq!(step(applied(deleting(mirror(&own, "m")))), delete(&mirror(&own, "m")));
    assert_eq!(step(PodChange::Gone("m".into())), publish);
    assert!(step(PodChange::Gone("m".into())).is_empty(), "once");
    // Left over by an executor with other static pods.
    let left = mirror(&on_node(pod("old", "x"), "node"), "o");
    assert_eq!(step(applied(left.clone())), delete(&left));
    assert!(step(PodChange::Gone("o".into())).is_empty());
    // It went while nobody watched.
    assert!(step(applied(mirror(&own, "m2"))).is_empty());
    assert!(step(PodChange::Complete(vec!["m2".into()])).is_empty());
    assert_eq!(step(PodChange::Complete(vec![])), publish);
}

#[test]
fn pods_are_written_into_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("static-pods");
    let mut nameless = pod("nameless", "x");
    nameless.metadata.annotations = None;
    let data = static_pods::pack(&[pod("spod", "x"), nameless, pod("spod2", "x")]).unwrap();
    let pods = of_executor(&data, "host", &[("UUID".to_owned(), "1".to_owned())]);
    write(&folder, &pods).unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    let mut names: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["spod.yaml", "spod2.yaml"]);
    let written = std::fs::read_to_string(folder.join("spod.yaml")).unwrap();
    let read = static_pods::parse("spod.yaml", &written).unwrap();
    assert_eq!(read.metadata.annotations.unwrap()[keys::BINDING_HOST], "host");
    assert_eq!(read.spec.unwrap().containers[0].env.as_ref().unwrap()[0].name, "UUID");
    let there = write(&folder, &pods).unwrap_err();
    assert_eq!(there.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(of_executor(b"nonsense", "host", &[]).is_empty());
}
