//! Claims and volumes beyond the known cases: states of claims, limits of drivers, and what changes while pods wait.

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::{CSINode, StorageClass},
};
use km_placement::{Binding, Engine, NodeFacts, PendingPod, Policy, Pool, Ports, Share, Supply, Way};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it is well-formed")
}

fn pod(name: &str, priority: i32, claims: &[&str]) -> Pod {
    let volume = |claim: &&str| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    let spec = json!({ "containers": [{ "name": "main" }], "priority": priority, "volumes": volumes });
    read(json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec }))
}

/// `spec` is merged into that of a claim of 1 GiB, `status` is its status.
fn claim(engine: &mut Engine, name: &str, spec: &Value, status: &Value) {
    let mut whole = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    for (key, value) in spec.as_object().expect("an object") {
        whole[key] = value.clone();
    }
    let object = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": whole, "status": status });
    engine.set_claim(&format!("default/{name}"), Some(&read::<PersistentVolumeClaim>(object)));
}

fn volume(engine: &mut Engine, name: &str, spec: &Value) {
    let mut whole = json!({ "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } });
    for (key, value) in spec.as_object().expect("an object") {
        whole[key] = value.clone();
    }
    engine.set_volume(name, Some(&read::<PersistentVolume>(json!({ "metadata": { "name": name }, "spec": whole }))));
}

fn class(engine: &mut Engine, name: &str, provisioner: &str) {
    let object = json!({
        "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    });
    engine.set_storage_class(name, Some(&read::<StorageClass>(object)));
}

/// Large nodes; each driver that is named attaches so many volumes to each.
fn engine(nodes: &[&str], limits: &[(&str, i32)]) -> Engine {
    let drivers: Vec<Value> = limits
        .iter()
        .map(|(name, count)| json!({ "name": name, "nodeID": "n", "allocatable": { "count": count } }))
        .collect();
    let csi: CSINode = read(json!({ "metadata": { "name": "n" }, "spec": { "drivers": drivers } }));
    let mut engine = Engine::new(Policy::default());
    for name in nodes {
        let status = json!({ "allocatable": { "cpu": "8", "memory": "32Gi", "pods": "110" } });
        let node: Node = read(json!({ "metadata": { "name": name }, "status": status }));
        let mut facts = NodeFacts::of(&node);
        facts.set_volume_limits(&csi);
        let share = Share { role: cluster::ROLE.to_owned(), free: facts.capacity.clone(), ports: Ports::Any };
        let pools = vec![Pool { role: cluster::ROLE.to_owned(), shares: vec![share] }];
        engine.set_node(name, facts);
        engine.set_supply(name, Supply { pools, ..Supply::default() });
    }
    engine
}

fn pending(engine: &mut Engine, pod: &Pod) -> PendingPod {
    cluster::pending(engine, pod, 0)
}

/// Where it goes, or the message.
fn place(engine: &mut Engine, pod: &Pod) -> Result<String, String> {
    let pending = pending(engine, pod);
    engine.place(&pending).map(|placement| placement.node).map_err(|why| why.to_string())
}

#[test]
fn what_is_wrong_with_a_claim_is_said_without_counting_nodes() {
    let bound = json!({ "volumeName": "v" });
    let table = [
        ("none", "persistentvolumeclaim \"c\" not found"),
        ("immediate", "pod has unbound immediate PersistentVolumeClaims"),
        ("lost", "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
        ("deleting", "persistentvolumeclaim \"c\" is being deleted"),
        ("no volume", "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        ("binding", "pod has unbound immediate PersistentVolumeClaims"),
        ("no class", "pod has unbound immediate PersistentVolumeClaims"),
    ];
    for (case, expected) in table {
        let mut engine = engine(&["a", "b"], &[]);
        match case {
            "none" => {}
            "immediate" => claim(&mut engine, "c", &json!({}), &json!({})),
            "lost" => claim(&mut engine, "c", &bound, &json!({ "phase": "Lost" })),
            "no volume" => claim(&mut engine, "c", &bound, &json!({ "phase": "Bound" })),
            "binding" => {
                volume(&mut engine, "v", &json!({}));
                claim(&mut engine, "c", &bound, &json!({ "phase": "Pending" }));
            }
            "no class" => claim(&mut engine, "c", &json!({ "storageClassName": "x" }), &json!({})),
            _ => {
                let meta = json!({
                    "name": "c", "namespace": "default", "deletionTimestamp": "2030-01-01T00:00:00Z",
                });
                engine.set_claim("default/c", Some(&read(json!({ "metadata": meta, "spec": bound }))));
            }
        }
        let message = place(&mut engine, &pod("p", 0, &["c"])).expect_err("it can't be placed");
        assert_eq!(message, format!("0/2 nodes are available: {expected}."), "{case}");
    }
}

#[test]
fn a_claim_that_comes_later_lets_its_pod_in() {
    let mut engine = engine(&["a"], &[]);
    let p = pod("p", 0, &["c"]);
    assert!(place(&mut engine, &p).is_err());
    class(&mut engine, "late", "disk.example");
    claim(&mut engine, "c", &json!({ "storageClassName": "late" }), &json!({}));
    assert_eq!(place(&mut engine, &p), Ok("a".to_owned()));
    engine.remove_pod("default/p");
    engine.set_claim("default/c", None);
    assert!(place(&mut engine, &p).is_err());
}

#[test]
fn an_open_claim_takes_only_a_volume_like_it() {
    let open = json!({ "storageClassName": "local" });
    let with = |key: &str, value: Value| {
        let mut spec = open.clone();
        spec[key] = value;
        spec
    };
    let labels = json!({ "matchLabels": { "disk": "fast" } });
    // The claim, the volume, whether they fit.
    let table = [
        (open.clone(), open.clone(), true),
        (open.clone(), json!({ "storageClassName": "other" }), false),
        (open.clone(), with("capacity", json!({ "storage": "1023Mi" })), false),
        (open.clone(), with("volumeMode", json!("Block")), false),
        (with("volumeMode", json!("Filesystem")), open.clone(), true),
        (with("accessModes", json!(["ReadWriteMany"])), open.clone(), false),
        (with("selector", labels), open.clone(), false),
        (open.clone(), with("claimRef", json!({ "namespace": "default", "name": "c" })), true),
        (open.clone(), with("claimRef", json!({ "namespace": "other", "name": "c" })), false),
    ];
    for (number, (asked, there, fits)) in table.into_iter().enumerate() {
        let mut engine = engine(&["a"], &[]);
        class(&mut engine, "local", "kubernetes.io/no-provisioner");
        claim(&mut engine, "c", &asked, &json!({}));
        volume(&mut engine, "v", &there);
        assert_eq!(place(&mut engine, &pod("p", 0, &["c"])).is_ok(), fits, "row {number}");
    }
}

#[test]
fn a_claim_for_one_pod_is_taken_by_the_first() {
    let mut engine = engine(&["a", "b"], &[]);
    volume(&mut engine, "v", &json!({ "accessModes": ["ReadWriteOncePod"] }));
    claim(&mut engine, "c", &json!({ "accessModes": ["ReadWriteOncePod"], "volumeName": "v" }), &json!({}));
    let pods = [pod("p", 0, &["c"]), pod("q", 0, &["c"])].map(|pod| pending(&mut engine, &pod));
    let plan = engine.place_all(&pods);
    assert_eq!(plan.placed.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0]);
    let text = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    assert_eq!(plan.refused[0].1.to_string(), format!("0/2 nodes are available: 2 {text}."));
    engine.remove_pod("default/p");
    assert!(engine.place(&pods[1]).is_ok());
}

#[test]
fn a_driver_attaches_only_so_many_volumes_to_a_node() {
    let setup = || {
        let mut engine = engine(&["a"], &[("disk.example", 2)]);
        class(&mut engine, "late", "disk.example");
        for name in ["c1", "c2", "c3"] {
            let csi = json!({ "driver": "disk.example", "volumeHandle": name });
            volume(&mut engine, name, &json!({ "csi": csi }));
            claim(&mut engine, name, &json!({ "volumeName": name }), &json!({}));
        }
        // The same volume under another claim; another driver's; one that is yet to be made.
        claim(&mut engine, "again", &json!({ "volumeName": "c1" }), &json!({}));
        volume(&mut engine, "other", &json!({ "csi": { "driver": "other.example", "volumeHandle": "o" } }));
        claim(&mut engine, "other", &json!({ "volumeName": "other" }), &json!({}));
        claim(&mut engine, "new", &json!({ "storageClassName": "late" }), &json!({}));
        engine
    };
    let table: [(&[&str], &[&str], bool); 7] = [
        (&["c1"], &["c2"], true),
        (&["c1"], &["c2", "c3"], false),
        (&["c1", "c2"], &["c3"], false),
        (&["c1", "c2"], &["c2", "again"], true),
        (&["c1", "c2"], &["other"], true),
        (&["c1", "c2"], &["new"], false),
        (&["c1", "new"], &["new"], true),
    ];
    for (there, comes, fits) in table {
        let mut engine = setup();
        place(&mut engine, &pod("first", 0, there)).expect("there is room");
        let placed = place(&mut engine, &pod("second", 0, comes));
        assert_eq!(placed.is_ok(), fits, "{there:?} then {comes:?}");
        if !fits {
            assert_eq!(placed, Err("0/1 nodes are available: 1 node(s) exceed max volume count.".to_owned()));
            let boss = pending(&mut engine, &pod("boss", 1, comes));
            engine.place(&boss).expect_err("there is still no room");
            let victims = engine.preempt(&boss).map(|preemption| preemption.victims);
            assert_eq!(victims, Ok(vec!["default/first".to_owned()]));
        }
    }
}

fn local(node: &str, more: &Value) -> Value {
    let here = json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }]);
    let mut spec =
        json!({ "storageClassName": "local", "nodeAffinity": { "required": { "nodeSelectorTerms": here } } });
    for (key, value) in more.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

fn bindings(engine: &mut Engine, claims: &[&str], node: &str) -> Option<Vec<Binding>> {
    let pending = pending(engine, &pod("p", 0, claims));
    let mut found = engine.bindings(&pending.need, node)?;
    found.sort_by(|one, other| one.claim.cmp(&other.claim));
    Some(found)
}

fn binding(claim: &str, way: Way, begun: bool) -> Binding {
    Binding { claim: format!("default/{claim}"), way, begun }
}

#[test]
fn open_claims_get_the_volumes_that_fit_on_the_node() {
    let mut engine = engine(&["a", "b"], &[]);
    class(&mut engine, "local", "kubernetes.io/no-provisioner");
    class(&mut engine, "made", "disk.example");
    volume(&mut engine, "large", &local("a", &json!({ "capacity": { "storage": "9Gi" } })));
    volume(&mut engine, "small", &local("a", &json!({})));
    volume(&mut engine, "other", &local("b", &json!({})));
    claim(&mut engine, "small", &json!({ "storageClassName": "local" }), &json!({}));
    let wants = json!({ "storageClassName": "local", "resources": { "requests": { "storage": "5Gi" } } });
    claim(&mut engine, "large", &wants, &json!({}));
    claim(&mut engine, "new", &json!({ "storageClassName": "made" }), &json!({}));
    claim(&mut engine, "bound", &json!({ "volumeName": "small" }), &json!({ "phase": "Bound" }));
    let reserve = |name: &str| Way::Reserve(name.to_owned());
    let want = [
        binding("large", reserve("large"), false),
        binding("new", Way::Provision, false),
        binding("small", reserve("small"), false),
    ];
    assert_eq!(bindings(&mut engine, &["small", "large", "new"], "a"), Some(want.into()));
    assert_eq!(bindings(&mut engine, &["small"], "b"), Some(vec![binding("small", reserve("other"), false)]));
    assert_eq!(bindings(&mut engine, &["small", "large"], "b"), None);
    assert_eq!(bindings(&mut engine, &["bound"], "a"), Some(Vec::new()));
    assert_eq!(bindings(&mut engine, &["missing"], "a"), None);
}

#[test]
fn what_was_begun_ties_a_claim_to_its_node() {
    let mut engine = engine(&["a", "b"], &[]);
    class(&mut engine, "local", "kubernetes.io/no-provisioner");
    class(&mut engine, "made", "disk.example");
    volume(&mut engine, "free", &local("b", &json!({})));
    volume(&mut engine, "mine", &local("a", &json!({ "claimRef": { "namespace": "default", "name": "c" } })));
    claim(&mut engine, "c", &json!({ "storageClassName": "local" }), &json!({}));
    let reserved = binding("c", Way::Reserve("mine".to_owned()), true);
    assert_eq!(bindings(&mut engine, &["c"], "a"), Some(vec![reserved]));
    assert_eq!(bindings(&mut engine, &["c"], "b"), None, "a second volume would be reserved");
    assert_eq!(place(&mut engine, &pod("p", 0, &["c"])), Ok("a".to_owned()));

    let meta = json!({
        "name": "d", "namespace": "default", "annotations": { "volume.kubernetes.io/selected-node": "b" },
    });
    let spec = json!({ "storageClassName": "made", "accessModes": ["ReadWriteOnce"] });
    engine.set_claim("default/d", Some(&read(json!({ "metadata": meta, "spec": spec }))));
    assert_eq!(bindings(&mut engine, &["d"], "b"), Some(vec![binding("d", Way::Provision, true)]));
    assert_eq!(bindings(&mut engine, &["d"], "a"), None);
    assert_eq!(place(&mut engine, &pod("q", 0, &["d"])), Ok("b".to_owned()));
}
