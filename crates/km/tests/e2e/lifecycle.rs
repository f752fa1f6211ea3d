//! The life of a cluster: crash and start again, background, status, reset.

use std::collections::BTreeMap;

use km_testkit::{Kubectl, eventually, leftovers};
use serde_json::Value;

use crate::{cluster, example, hello, km, turn};

/// Container id by pod: what a restart must not change.
fn containers(kubectl: &Kubectl) -> BTreeMap<String, String> {
    let text = |pod: &Value, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    hello::pods(kubectl)
        .iter()
        .map(|pod| (text(pod, "/metadata/name"), text(pod, "/status/containerStatuses/0/containerID")))
        .collect()
}

#[test]
fn a_crashed_cluster_finds_its_objects_and_adopts_its_pods() {
    let mut turn = cluster(&["--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    kubectl.run("create configmap kept --from-literal=key=value");
    let before = containers(&kubectl);
    assert_eq!(before.len(), 4);

    turn.cluster.crash();
    turn.cluster.start_again();

    assert_eq!(kubectl.run("get configmap kept -o jsonpath={.data.key}"), "value");
    eventually("the same containers run", || {
        let after = containers(&kubectl);
        if after == before && hello::ready_pods(&kubectl) == 4 { Ok(()) } else { Err(format!("{after:?}")) }
    });
    hello::invariant_live_tasks_are_bound_pods(&turn.cluster.port("/mesos_port"), &kubectl);
    // Adopted pods still obey.
    kubectl.run("scale deployment hello --replicas=2");
    eventually("two pods are left", || match hello::pods(&kubectl).len() {
        2 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    let left = containers(&kubectl);
    assert!(left.iter().all(|(pod, id)| before.get(pod) == Some(id)), "{left:?}");
    turn.cluster.stop();
}

#[test]
fn a_stopped_cluster_starts_again_with_its_objects() {
    let mut turn = cluster(&["--apply", &example("hello.yaml")]);
    turn.cluster.stop();
    turn.cluster.start_again();
    // It waits for what it applies, whatever the objects say of the time before.
    let kubectl = turn.cluster.kubectl.clone();
    assert_eq!(hello::ready_pods(&kubectl), 4, "{:?}", kubectl.try_run("get pods,nodes -o wide"));
    turn.cluster.stop();
}

#[test]
fn a_detached_cluster_is_seen_stopped_and_reset() {
    let _turn = turn();
    let folder = tempfile();
    let data = folder.join("km");
    let run = |line: &str| {
        let words = line.split_whitespace();
        let output = std::process::Command::new(km()).args(words).arg("--data-dir").arg(&data).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    assert_eq!(run("status").0, Some(102), "nothing runs yet");
    let kubeconfig = folder.join("kubeconfig");
    let ports = "--api-port=0 --mesos-port=0 --agent-port=0 --scheduler-port=0 --controller-manager-port=0";
    let (code, text) = run(&format!("up --detach --agents 1 {ports} --kubeconfig {}", kubeconfig.display()));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run("status -o json");
    assert_eq!(code, Some(0), "{text}");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["nodes"][0]["ready"], true, "{text}");
    let (code, text) = run("up");
    assert_eq!(code, Some(101), "a second cluster on the directory is refused: {text}");
    assert!(text.contains("in use by process") && text.contains("km down"), "{text}");
    let (code, text) = run("down");
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(run("down").0, Some(102));
    let (code, text) = run(&format!("reset --kubeconfig {}", kubeconfig.display()));
    assert_eq!(code, Some(0), "{text}");
    assert!(!data.exists());
    assert!(!std::fs::read_to_string(&kubeconfig).unwrap().contains("127.0.0.1"));
    let left = leftovers(&data);
    assert!(left.is_empty(), "{left:#?}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn tempfile() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("km-detached-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
