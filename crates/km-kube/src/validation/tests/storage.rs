//! Volumes, claims and storage classes.

use super::*;

/// A change of a good object, and how the only complaint begins.
type Case = (fn(&mut Value), &'static str);

fn claim(change: impl FnOnce(&mut Value)) -> Value {
    let mut claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    change(&mut claim);
    claim
}

fn volume(change: impl FnOnce(&mut Value)) -> Value {
    let mut volume = json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/srv"}}});
    change(&mut volume);
    volume
}

fn class(change: impl FnOnce(&mut Value)) -> Value {
    let mut class = json!({"metadata": {"name": "s"}, "provisioner": "kubernetes.io/no-provisioner"});
    change(&mut class);
    class
}

/// What an update of an object with its defaults is told.
fn updated(group: &str, kind: &str, mut old: Value, change: impl FnOnce(&mut Value)) -> Vec<String> {
    old["metadata"]["resourceVersion"] = json!("1");
    defaults::apply(group, kind, &mut old);
    let mut new = old.clone();
    change(&mut new);
    texts(&update(group, kind, &new, &old))
}

#[test]
fn what_a_new_claim_must_be() {
    let none: Vec<String> = Vec::new();
    assert_eq!(created("", "PersistentVolumeClaim", claim(|_| {})), none);
    let table: [Case; 9] = [
        (|c| c["spec"]["accessModes"] = json!([]), "spec.accessModes: Required value: at least 1 access mode"),
        (|c| c["spec"]["accessModes"] = json!(["Once"]), "spec.accessModes[0]: Unsupported value: \"Once\""),
        (
            |c| c["spec"]["accessModes"] = json!(["ReadWriteOncePod", "ReadWriteOnce"]),
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
        ),
        (|c| c["spec"]["resources"] = json!({}), "spec.resources[storage]: Required value"),
        (
            |c| c["spec"]["resources"]["requests"]["storage"] = json!("0"),
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
        ),
        (
            |c| c["spec"]["resources"]["requests"]["storage"] = json!("-1Gi"),
            "spec.resources.requests[storage]: Invalid value: \"-1Gi\": must be greater than or equal to 0",
        ),
        (|c| c["spec"]["storageClassName"] = json!("A b"), "spec.storageClassName: Invalid value: \"A b\""),
        (|c| c["spec"]["volumeMode"] = json!("Tape"), "spec.volumeMode: Unsupported value: \"Tape\""),
        (
            |c| c["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            "spec.selector: Invalid value",
        ),
    ];
    for (change, want) in table {
        one(&created("", "PersistentVolumeClaim", claim(change)), want);
    }
}

#[test]
fn what_a_new_volume_must_be() {
    let none: Vec<String> = Vec::new();
    assert_eq!(created("", "PersistentVolume", volume(|_| {})), none);
    let local = |v: &mut Value| {
        v["spec"]["hostPath"].take();
        v["spec"]["local"] = json!({"path": "/mnt/disk"});
        v["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}});
    };
    assert_eq!(created("", "PersistentVolume", volume(local)), none);
    let table: [Case; 9] = [
        (|v| v["spec"]["accessModes"] = json!([]), "spec.accessModes: Required value"),
        (|v| v["spec"]["capacity"] = json!({}), "spec.capacity: Required value"),
        (|v| v["spec"]["capacity"] = json!({"storage": "1Gi", "cpu": "1"}), "spec.capacity: Unsupported value"),
        (|v| v["spec"]["capacity"] = json!({"storage": "0"}), "spec.capacity[storage]: Invalid value: \"0\": must be"),
        (
            |v| {
                v["spec"]["hostPath"].take();
            },
            "spec: Required value: must specify a volume type",
        ),
        (
            |v| v["spec"]["nfs"] = json!({"server": "s", "path": "/"}),
            "spec.nfs: Forbidden: may not specify more than 1 volume type",
        ),
        (|v| v["spec"]["hostPath"]["path"] = json!("/a/../b"), "spec.hostPath.path: Invalid value: \"/a/../b\""),
        (
            |v| v["spec"]["persistentVolumeReclaimPolicy"] = json!("Keep"),
            "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: \"Delete\", \"Recycle\"",
        ),
        (
            |v| {
                v["spec"]["hostPath"].take();
                v["spec"]["local"] = json!({"path": "/mnt/disk"});
            },
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ),
    ];
    for (change, want) in table {
        one(&created("", "PersistentVolume", volume(change)), want);
    }
}

#[test]
fn what_a_new_class_must_be() {
    let none: Vec<String> = Vec::new();
    assert_eq!(created("storage.k8s.io", "StorageClass", class(|_| {})), none);
    let table: [Case; 3] = [
        (|c| c["provisioner"] = json!(""), "provisioner: Required value"),
        (|c| c["reclaimPolicy"] = json!("Keep"), "reclaimPolicy: Unsupported value: \"Keep\""),
        (|c| c["volumeBindingMode"] = json!("Later"), "volumeBindingMode: Unsupported value: \"Later\""),
    ];
    for (change, want) in table {
        one(&created("storage.k8s.io", "StorageClass", class(change)), want);
    }
}

#[test]
fn what_a_nodes_drivers_must_be() {
    let drivers = |drivers: Value| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "n" },
            "spec": { "drivers": drivers },
        })
    };
    let driver = json!({ "name": "d.example", "nodeID": "1", "topologyKeys": null, "allocatable": { "count": 8 } });
    let none: Vec<String> = Vec::new();
    assert_eq!(created("storage.k8s.io", "CSINode", drivers(json!([]))), none);
    assert_eq!(created("storage.k8s.io", "CSINode", drivers(json!([driver]))), none);
    let table = [
        (json!([{ "nodeID": "1" }]), "spec.drivers[0].name: Required value"),
        (json!([{ "name": "A_b", "nodeID": "1" }]), "spec.drivers[0].name: Invalid value: \"A_b\""),
        (json!([{ "name": "d" }]), "spec.drivers[0].nodeID: Required value"),
        (
            json!([{ "name": "d", "nodeID": "1", "allocatable": { "count": -1 } }]),
            "spec.drivers[0].allocatable.count: Invalid value: -1",
        ),
        (json!([driver, driver]), "spec.drivers[1].name: Duplicate value: \"d.example\""),
    ];
    for (given, want) in table {
        one(&created("storage.k8s.io", "CSINode", drivers(given)), want);
    }
}

#[test]
fn what_of_a_claim_may_change() {
    let bound = |c: &mut Value| {
        c["spec"]["volumeName"] = json!("v");
        c["status"] = json!({"phase": "Bound", "capacity": {"storage": "2Gi"}});
    };
    let change = |old: Value, change: fn(&mut Value)| updated("", "PersistentVolumeClaim", old, change);
    let none: Vec<String> = Vec::new();
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests";
    assert_eq!(change(claim(|_| {}), |c| c["spec"]["volumeName"] = json!("v")), none, "binding");
    assert_eq!(change(claim(|_| {}), |c| c["spec"]["storageClassName"] = json!("s")), none, "a late default class");
    one(&change(claim(bound), |c| c["spec"]["volumeName"] = json!("w")), immutable);
    one(&change(claim(bound), |c| c["spec"]["storageClassName"] = json!("s")), immutable);
    one(
        &change(claim(|c| c["spec"]["storageClassName"] = json!("")), |c| c["spec"]["storageClassName"] = json!("s")),
        immutable,
    );
    one(&change(claim(|_| {}), |c| c["spec"]["resources"]["requests"]["storage"] = json!("3Gi")), immutable);
    assert_eq!(change(claim(bound), |c| c["spec"]["resources"]["requests"]["storage"] = json!("3Gi")), none);
    one(
        &change(claim(bound), |c| c["spec"]["resources"]["requests"]["storage"] = json!("500Mi")),
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
    );
}

#[test]
fn what_of_volumes_and_classes_may_change() {
    let change = |change: fn(&mut Value)| updated("", "PersistentVolume", volume(|_| {}), change);
    let none: Vec<String> = Vec::new();
    assert_eq!(change(|v| v["spec"]["claimRef"] = json!({"name": "c", "namespace": "n"})), none);
    assert_eq!(change(|v| v["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete")), none);
    one(&change(|v| v["spec"]["hostPath"]["path"] = json!("/other")), "spec.persistentvolumesource: Forbidden: spec");
    one(&change(|v| v["spec"]["volumeMode"] = json!("Block")), "spec.volumeMode: Invalid value: \"Block\": field is");
    let change = |change: fn(&mut Value)| updated("storage.k8s.io", "StorageClass", class(|_| {}), change);
    assert_eq!(change(|c| c["allowVolumeExpansion"] = json!(true)), none);
    one(&change(|c| c["provisioner"] = json!("x")), "provisioner: Forbidden: updates to provisioner are forbidden.");
    one(
        &change(|c| c["parameters"] = json!({"a": "b"})),
        "parameters: Forbidden: updates to parameters are forbidden.",
    );
    one(&change(|c| c["reclaimPolicy"] = json!("Retain")), "reclaimPolicy: Forbidden: updates to reclaimPolicy");
    one(&change(|c| c["volumeBindingMode"] = json!("WaitForFirstConsumer")), "volumeBindingMode: Invalid value");
}
