//! Volumes, claims, storage classes and the drivers of nodes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{TestServer, assert_status};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": { "storage": "5Gi" },
            "hostPath": { "path": "/srv" }, "storageClassName": "slow",
        },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    })
}

fn class(name: &str, default: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": name, "annotations": { "storageclass.kubernetes.io/is-default-class": default.to_string() },
        },
        "provisioner": "kubernetes.io/no-provisioner",
    })
}

async fn rows(server: &TestServer, path: &str) -> Vec<Vec<Value>> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (code, table) = server.send(server.request(Method::GET, path).header("Accept", accept)).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")), "{table}");
    let columns = table["columnDefinitions"].as_array().unwrap().len();
    let rows = table["rows"].as_array().unwrap().iter().map(|row| row["cells"].as_array().unwrap().clone());
    let rows: Vec<Vec<Value>> = rows.collect();
    assert!(rows.iter().all(|row| row.len() == columns), "{table}");
    rows
}

#[tokio::test]
async fn objects_are_completed_and_shown_in_columns() {
    let server = TestServer::start().await;
    let made = server.create(VOLUMES, &volume("v")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    assert_eq!(made["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(made["spec"]["volumeMode"], "Filesystem");
    assert_eq!(made["status"]["phase"], "Pending");
    let made = server.create(CLAIMS, &claim("c")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(made["status"]["phase"], "Pending");
    assert!(made["spec"].get("storageClassName").is_none(), "there is no default class: {made}");
    let made = server.create(CLASSES, &class("slow", true)).await;
    assert_eq!((&made["reclaimPolicy"], &made["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));

    let status = json!({ "spec": { "volumeName": "v" } });
    assert_eq!(server.patch(&format!("{CLAIMS}/c"), "merge", &status).await.0, 200);
    let status = json!({
        "status": { "phase": "Bound", "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce"] },
    });
    assert_eq!(server.patch(&format!("{CLAIMS}/c/status"), "merge", &status).await.0, 200);
    let reference = json!({ "spec": { "claimRef": { "namespace": "default", "name": "c" } } });
    assert_eq!(server.patch(&format!("{VOLUMES}/v"), "merge", &reference).await.0, 200);

    // Without the age, which depends on the time.
    let without = |rows: Vec<Vec<Value>>, age: usize| {
        let mut row = rows.into_iter().next().unwrap();
        row.remove(age);
        Value::from(row)
    };
    assert_eq!(
        without(rows(&server, VOLUMES).await, 9),
        json!(["v", "5Gi", "RWO,RWX", "Retain", "Pending", "default/c", "slow", "<unset>", "", "Filesystem"])
    );
    assert_eq!(
        without(rows(&server, CLAIMS).await, 7),
        json!(["c", "Bound", "v", "5Gi", "RWO", "", "<unset>", "Filesystem"])
    );
    assert_eq!(
        without(rows(&server, CLASSES).await, 5),
        json!(["slow (default)", "kubernetes.io/no-provisioner", "Delete", "Immediate", false])
    );
}

#[tokio::test]
async fn drivers_of_nodes_are_kept_and_counted() {
    const NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
    let server = TestServer::start().await;
    let driver = |name: &str| json!({ "name": name, "nodeID": "1", "topologyKeys": ["zone"] });
    let node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "n" },
        "spec": { "drivers": [driver("a.example"), driver("b.example")] },
    });
    assert_eq!(server.create(NODES, &node).await["spec"], node["spec"]);
    assert_eq!(rows(&server, NODES).await[0][..2], [json!("n"), json!(2)]);
    let (_, kinds) = server.get("/apis/storage.k8s.io/v1").await;
    let found = kinds["resources"].as_array().unwrap().iter().find(|one| one["name"] == "csinodes");
    assert_eq!(found.unwrap()["namespaced"], false);
}

#[tokio::test]
async fn claims_without_a_class_get_the_default_one() {
    let server = TestServer::start().await;
    server.create(CLASSES, &class("a", false)).await;
    server.create(CLASSES, &class("b", true)).await;
    let class_of = async |name: &str, class: Option<&str>| {
        let mut claim = claim(name);
        if let Some(class) = class {
            claim["spec"]["storageClassName"] = class.into();
        }
        server.create(CLAIMS, &claim).await["spec"]["storageClassName"].clone()
    };
    assert_eq!(class_of("none", None).await, "b");
    assert_eq!(class_of("empty", Some("")).await, "");
    assert_eq!(class_of("other", Some("a")).await, "a");
}

#[tokio::test]
async fn what_protects_them_is_taken_off_before_they_go() {
    let server = TestServer::start().await;
    for (collection, object) in [(VOLUMES, volume("x")), (CLAIMS, claim("x"))] {
        server.create(collection, &object).await;
        let path = format!("{collection}/x");
        let (code, marked) = server.delete(&path).await;
        assert_eq!(code, 200);
        assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
        assert!(rows(&server, collection).await[0].contains(&json!("Terminating")));
        let free = json!({ "metadata": { "finalizers": null } });
        assert_eq!(server.patch(&path, "merge", &free).await.0, 200);
        assert_eq!(server.get(&path).await.0, 404);
    }
}

#[tokio::test]
async fn bound_claims_grow_only_where_their_class_lets_them() {
    let server = TestServer::start().await;
    let mut growing = class("growing", false);
    growing["allowVolumeExpansion"] = true.into();
    server.create(CLASSES, &growing).await;
    server.create(CLASSES, &class("fixed", false)).await;
    for (name, allowed) in [("growing", true), ("fixed", false)] {
        let mut claim = claim(name);
        claim["spec"]["storageClassName"] = name.into();
        claim["spec"]["volumeName"] = "v".into();
        server.create(CLAIMS, &claim).await;
        let path = format!("{CLAIMS}/{name}");
        let bound = json!({ "status": { "phase": "Bound" } });
        assert_eq!(server.patch(&format!("{path}/status"), "merge", &bound).await.0, 200);
        let more = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
        let answer = server.patch(&path, "merge", &more).await;
        if allowed {
            assert_eq!(answer.0, 200, "{}", answer.1);
        } else {
            assert_status(&answer, 403, "Forbidden", "only dynamically provisioned pvc can be resized");
        }
    }
}

#[tokio::test]
async fn mistakes_name_their_field() {
    let server = TestServer::start().await;
    let mut bad = volume("v");
    bad["spec"]["capacity"] = json!({});
    assert_status(&server.post(VOLUMES, &bad).await, 422, "Invalid", "spec.capacity: Required value");
    server.create(VOLUMES, &volume("v")).await;
    let other = json!({ "spec": { "hostPath": { "path": "/other" } } });
    let refused = server.patch(&format!("{VOLUMES}/v"), "merge", &other).await;
    assert_status(&refused, 422, "Invalid", "spec.persistentvolumesource is immutable after creation");
    server.create(CLAIMS, &claim("c")).await;
    let other = json!({ "spec": { "accessModes": ["ReadWriteMany"] } });
    let refused = server.patch(&format!("{CLAIMS}/c"), "merge", &other).await;
    assert_status(&refused, 422, "Invalid", "spec is immutable after creation");
    assert_eq!(server.get("/api/v1/namespaces/default/persistentvolumes").await.0, 404, "they are in no namespace");
}
