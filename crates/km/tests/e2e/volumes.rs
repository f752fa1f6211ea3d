//! Persistent volumes: what a pod writes to its claim, the next one reads.

use km_testkit::{Kubectl, eventually};

use crate::cluster;

const BUSYBOX: &str = "localhost/km/busybox:v1";

/// A pod that runs a script beside the claim `data`, mounted at `/data`.
fn pod(name: &str, script: &str, read_only: bool) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  volumes:\n  - name: d\n    \
         persistentVolumeClaim: {{claimName: data, readOnly: {read_only}}}\n  containers:\n  - name: main\n    image: \
         {BUSYBOX}\n    command: [sh, -c, '{script}']\n    resources: {{requests: {{cpu: 10m, memory: 32Mi}}}}\n    \
         volumeMounts: [{{name: d, mountPath: /data}}]\n"
    )
}

fn claim(name: &str, class: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec:\n  accessModes: \
         [ReadWriteOnce]\n  storageClassName: {class}\n  resources: {{requests: {{storage: 1Gi}}}}\n"
    )
}

#[track_caller]
fn becomes(kubectl: &Kubectl, what: &str, path: &str, wanted: &str) {
    eventually(&format!("{what} becomes {wanted}"), || {
        match kubectl.try_run(&format!("get {what} -o jsonpath={{{path}}}"))? {
            found if found == wanted => Ok(()),
            _ => Err(kubectl.try_run(&format!("describe {what}"))?),
        }
    });
}

#[test]
fn a_claim_keeps_what_pods_write() {
    let folder = tempfile::tempdir().unwrap();
    let mut turn = cluster(&["--agents", "2"]);
    let kubectl = turn.cluster.kubectl.clone();
    let node = eventually("two nodes", || {
        let names = kubectl.try_run("get nodes -o jsonpath={.items[*].metadata.name}")?;
        let names: Vec<&str> = names.split_whitespace().collect();
        if let [_, second] = names.as_slice() { Ok((*second).to_owned()) } else { Err(format!("{names:?}")) }
    });
    kubectl.apply(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: local}\nprovisioner: \
         kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n",
    );
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: disk}}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
         capacity: {{storage: 2Gi}}\n  storageClassName: local\n  local: {{path: {}}}\n  nodeAffinity:\n    required:\n      \
         nodeSelectorTerms:\n      - matchFields: [{{key: metadata.name, operator: In, values: [{node}]}}]\n",
        folder.path().display()
    ));
    kubectl.apply(&claim("data", "local"));
    eventually("the claim waits for its pod", || {
        let told = kubectl.try_run("describe pvc data")?;
        if told.contains("waiting for first consumer") { Ok(()) } else { Err(told) }
    });

    kubectl.apply(&pod("writes", "echo kept > /data/file", false));
    becomes(&kubectl, "pod/writes", ".status.phase", "Succeeded");
    assert_eq!(kubectl.run("get pod writes -o jsonpath={.spec.nodeName}"), node);
    assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "kept\n");
    let shown = kubectl.run("get pvc data --no-headers");
    assert_eq!(shown.split_whitespace().take(6).collect::<Vec<_>>(), ["data", "Bound", "disk", "2Gi", "RWO", "local"]);

    kubectl.apply(&pod("reads", "cat /data/file; touch /data/other || echo refused; sleep 3600", true));
    eventually("the second pod reads", || match kubectl.try_run("logs reads")? {
        log if log.contains("kept") && log.contains("refused") => Ok(()),
        log => Err(log),
    });
    // In use, the claim outlives its deletion; then the volume is released.
    kubectl.run("delete pvc data --wait=false");
    kubectl.run("delete pod writes");
    assert!(kubectl.run("get pvc data --no-headers").contains("Terminating"));
    kubectl.run("delete pod reads --grace-period=1");
    becomes(&kubectl, "pv/disk", ".status.phase", "Released");
    assert!(kubectl.fails("get pvc data").contains("not found"));

    kubectl.apply(&claim("data", "none"));
    kubectl.apply(&pod("waits", "true", false));
    eventually("the pod is told why it waits", || {
        let told = kubectl.try_run("describe pod waits")?;
        if told.contains("pod has unbound immediate PersistentVolumeClaims") { Ok(()) } else { Err(told) }
    });
    assert!(kubectl.run("describe pvc data").contains("storageclass.storage.k8s.io \"none\" not found"));
    turn.cluster.stop();
}
