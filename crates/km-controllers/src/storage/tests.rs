//! Tables and properties of `storage`.

use super::*;
use crate::core::simulation::Simulation;

mod orders;

fn volume(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut volume = json!({"metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/srv"}}, "status": {"phase": "Pending"}});
    change(&mut volume);
    volume
}

fn claim(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut claim = json!({"metadata": {"name": name, "finalizers": ["kubernetes.io/pvc-protection"]}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem",
        "storageClassName": ""}, "status": {"phase": "Pending"}});
    change(&mut claim);
    claim
}

fn class(name: &str, provisioner: &str, delayed: bool) -> Value {
    let mode = if delayed { "WaitForFirstConsumer" } else { "Immediate" };
    json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})
}

fn of_class(name: &str) -> impl FnOnce(&mut Value) {
    let name = name.to_owned();
    move |object| object["spec"]["storageClassName"] = json!(name)
}

/// A run of everything in some order, and short ways to look at it.
struct Cluster(Simulation);

impl Cluster {
    fn new() -> Self {
        Self(Simulation::new())
    }

    fn with(objects: &[(Resource, Value)]) -> Self {
        let mut cluster = Self::new();
        for (resource, object) in objects {
            cluster.create(resource, object);
            cluster.settle();
        }
        cluster
    }

    fn create(&mut self, resource: &Resource, object: &Value) {
        let namespace = if resource.namespaced { "n" } else { "" };
        self.0.api.create(resource, namespace, object.clone()).unwrap();
    }

    fn settle(&mut self) {
        self.0.settle(false);
    }

    fn get(&self, resource: &Resource, name: &str) -> Value {
        let namespace = if resource.namespaced { "n" } else { "" };
        self.0.api.objects.get(&(resource.clone(), Key::new(namespace, name))).cloned().unwrap_or_default()
    }

    fn change(&mut self, resource: &Resource, name: &str, change: impl FnOnce(&mut Value)) {
        let namespace = if resource.namespaced { "n" } else { "" };
        self.0.api.change(resource, &Key::new(namespace, name), change);
    }

    fn delete(&mut self, resource: &Resource, name: &str) {
        self.change(resource, name, |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z"));
    }

    /// Phase and volume of a claim.
    fn claim(&self, name: &str) -> (String, String) {
        let claim = self.get(&Resource::claims(), name);
        (text(&claim, "/status/phase").to_owned(), text(&claim, "/spec/volumeName").to_owned())
    }

    /// Phase of a volume, and the name of the claim that it is reserved for.
    fn volume(&self, name: &str) -> (String, String) {
        let volume = self.get(&Resource::volumes(), name);
        (text(&volume, "/status/phase").to_owned(), text(&volume, "/spec/claimRef/name").to_owned())
    }

    fn events(&self) -> Vec<(String, String)> {
        let events = self.0.api.all(&Resource::events());
        let mut told: Vec<(String, String)> = events
            .iter()
            .map(|event| (text(event, "/reason").to_owned(), text(event, "/message").to_owned()))
            .collect();
        told.sort();
        told
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

fn bytes_of(size: &str) -> impl FnOnce(&mut Value) {
    let size = size.to_owned();
    move |volume| volume["spec"]["capacity"]["storage"] = json!(size)
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let volumes = Resource::volumes();
    let cluster = Cluster::with(&[
        (volumes.clone(), volume("large", bytes_of("10Gi"))),
        (volumes.clone(), volume("small", bytes_of("500Mi"))),
        (volumes.clone(), volume("right", bytes_of("1Gi"))),
        (volumes.clone(), volume("classy", of_class("other"))),
        (volumes.clone(), volume("block", |v| v["spec"]["volumeMode"] = json!("Block"))),
        (volumes, volume("shared", |v| v["spec"]["accessModes"] = json!(["ReadWriteMany"]))),
        (Resource::claims(), claim("c", |_| {})),
    ]);
    assert_eq!(cluster.claim("c"), pair("Bound", "right"));
    assert_eq!(cluster.volume("right"), pair("Bound", "c"));
    for free in ["large", "small", "classy", "block", "shared"] {
        assert_eq!(cluster.volume(free), pair("Available", ""), "{free}");
    }
    let claim = cluster.get(&Resource::claims(), "c");
    assert_eq!(claim["status"]["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(claim["status"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(claim["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    let volume = cluster.get(&Resource::volumes(), "right");
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    assert_eq!(cluster.events(), []);
}

#[test]
fn selectors_reservations_and_names_decide() {
    let labelled = |v: &mut Value| v["metadata"]["labels"] = json!({"disk": "fast"});
    let reserved = |v: &mut Value| v["spec"]["claimRef"] = json!({"namespace": "n", "name": "mine"});
    let cluster = Cluster::with(&[
        (Resource::volumes(), volume("plain", |_| {})),
        (Resource::volumes(), volume("fast", labelled)),
        (Resource::volumes(), volume("mine", reserved)),
        (Resource::volumes(), volume("named", bytes_of("9Gi"))),
        (Resource::claims(), claim("picky", |c| c["spec"]["selector"] = json!({"matchLabels": {"disk": "fast"}}))),
        (Resource::claims(), claim("mine", |_| {})),
        (Resource::claims(), claim("named", |c| c["spec"]["volumeName"] = json!("named"))),
    ]);
    assert_eq!(cluster.claim("picky"), pair("Bound", "fast"));
    assert_eq!(cluster.claim("mine"), pair("Bound", "mine"));
    assert_eq!(cluster.claim("named"), pair("Bound", "named"));
    assert_eq!(cluster.volume("plain"), pair("Available", ""));
}

/// What it is about, what there is, and reason and beginning of the only event.
type Case = (&'static str, Vec<(Resource, Value)>, &'static str, &'static str);

#[test]
fn a_claim_that_gets_nothing_is_told_why_once() {
    let table: [Case; 8] = [
        (
            "no class",
            vec![(Resource::claims(), claim("c", |_| {}))],
            "FailedBinding",
            "no persistent volumes available",
        ),
        (
            "missing class",
            vec![(Resource::claims(), claim("c", of_class("x")))],
            "ProvisioningFailed",
            "storageclass.storage.k8s.io \"x\" not found",
        ),
        (
            "no provisioner",
            vec![
                (Resource::storage_classes(), class("x", "kubernetes.io/no-provisioner", false)),
                (Resource::claims(), claim("c", of_class("x"))),
            ],
            "FailedBinding",
            "no persistent volumes available for this claim, and storage class \"x\" makes none",
        ),
        (
            "a provisioner that is not there",
            vec![
                (Resource::storage_classes(), class("x", "kubernetes.io/aws-ebs", false)),
                (Resource::claims(), claim("c", of_class("x"))),
            ],
            "ProvisioningFailed",
            "no volume plugin matched name: kubernetes.io/aws-ebs",
        ),
        (
            "one outside",
            vec![
                (Resource::storage_classes(), class("x", "example.com/disks", false)),
                (Resource::claims(), claim("c", of_class("x"))),
            ],
            "ExternalProvisioning",
            "Waiting for a volume to be created either by the external provisioner 'example.com/disks'",
        ),
        (
            "delayed",
            vec![
                (Resource::storage_classes(), class("x", "kubernetes.io/no-provisioner", true)),
                (Resource::volumes(), volume("v", of_class("x"))),
                (Resource::claims(), claim("c", of_class("x"))),
            ],
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
        (
            "another's volume",
            vec![
                (Resource::volumes(), volume("v", |v| v["spec"]["claimRef"] = json!({"namespace": "m", "name": "c"}))),
                (Resource::claims(), claim("c", |c| c["spec"]["volumeName"] = json!("v"))),
            ],
            "FailedBinding",
            "volume \"v\" already bound to a different claim.",
        ),
        (
            "a volume that won't do",
            vec![
                (Resource::volumes(), volume("v", bytes_of("1Mi"))),
                (Resource::claims(), claim("c", |c| c["spec"]["volumeName"] = json!("v"))),
            ],
            "VolumeMismatch",
            "Cannot bind to requested volume \"v\": requested PV is too small",
        ),
    ];
    for (what, objects, reason, message) in table {
        let mut cluster = Cluster::with(&objects);
        assert_eq!(cluster.claim("c").0, "Pending", "{what}");
        // Something changes that helps nothing.
        cluster.change(&Resource::claims(), "c", |claim| claim["metadata"]["labels"] = json!({"a": "b"}));
        cluster.settle();
        let events = cluster.events();
        let [(told, why)] = events.as_slice() else { panic!("{what}: {events:?}") };
        assert!(told == reason && why.starts_with(message), "{what}: {told} {why}");
    }
}

#[test]
fn a_delayed_claim_takes_only_what_the_scheduler_reserves() {
    let mut cluster = Cluster::with(&[
        (Resource::storage_classes(), class("x", "kubernetes.io/no-provisioner", true)),
        (Resource::volumes(), volume("v", of_class("x"))),
        (Resource::volumes(), volume("w", of_class("x"))),
        (Resource::claims(), claim("c", of_class("x"))),
    ]);
    assert_eq!(cluster.claim("c"), pair("Pending", ""));
    let uid = cluster.get(&Resource::claims(), "c")["metadata"]["uid"].clone();
    cluster.change(&Resource::volumes(), "w", |volume| {
        volume["spec"]["claimRef"] = json!({"namespace": "n", "name": "c", "uid": uid});
        volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    });
    cluster.settle();
    assert_eq!(cluster.claim("c"), pair("Bound", "w"));
    assert_eq!(cluster.volume("v"), pair("Available", ""));
}

#[test]
fn an_external_provisioner_hears_of_its_claims() {
    let mut cluster = Cluster::with(&[
        (Resource::storage_classes(), class("x", "example.com/disks", true)),
        (Resource::claims(), claim("c", of_class("x"))),
    ]);
    let heard = |cluster: &Cluster| {
        let claim = cluster.get(&Resource::claims(), "c");
        annotation(&claim, "volume.kubernetes.io/storage-provisioner").to_owned()
    };
    assert_eq!(heard(&cluster), "", "no pod uses it");
    cluster.change(&Resource::claims(), "c", |claim| {
        claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "node"});
    });
    cluster.settle();
    assert_eq!(heard(&cluster), "example.com/disks");
    let uid = cluster.get(&Resource::claims(), "c")["metadata"]["uid"].clone();
    let made = volume("made", |volume| {
        volume["spec"]["storageClassName"] = json!("x");
        volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
        volume["spec"]["claimRef"] = json!({"namespace": "n", "name": "c", "uid": uid});
        volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": "example.com/disks"});
    });
    cluster.create(&Resource::volumes(), &made);
    cluster.settle();
    assert_eq!((cluster.claim("c"), cluster.volume("made")), (pair("Bound", "made"), pair("Bound", "c")));
    cluster.delete(&Resource::claims(), "c");
    cluster.settle();
    assert_eq!(cluster.volume("made").0, "Released", "the provisioner deletes it");
}

#[test]
fn a_class_that_becomes_the_default_is_given_to_claims_without_any() {
    let mut cluster = Cluster::with(&[(
        Resource::claims(),
        claim("c", |c| {
            c["spec"]["storageClassName"].take();
        }),
    )]);
    assert_eq!(cluster.claim("c").0, "Pending");
    let mut default = class("x", "kubernetes.io/no-provisioner", false);
    default["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    cluster.create(&Resource::storage_classes(), &default);
    cluster.create(&Resource::volumes(), &volume("v", of_class("x")));
    cluster.settle();
    assert_eq!(cluster.get(&Resource::claims(), "c")["spec"]["storageClassName"], "x");
    assert_eq!(cluster.claim("c"), pair("Bound", "v"));
}

#[test]
fn the_policy_decides_on_a_volume_whose_claim_is_gone() {
    for (policy, phase, told) in [
        ("Retain", "Released", None),
        ("Delete", "Failed", Some("VolumeFailedDelete")),
        ("Recycle", "Failed", Some("VolumeFailedRecycle")),
    ] {
        let of_policy = |v: &mut Value| v["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
        let mut cluster =
            Cluster::with(&[(Resource::volumes(), volume("v", of_policy)), (Resource::claims(), claim("c", |_| {}))]);
        assert_eq!(cluster.claim("c"), pair("Bound", "v"));
        cluster.delete(&Resource::claims(), "c");
        cluster.settle();
        assert_eq!(cluster.get(&Resource::claims(), "c"), Value::Null, "nothing uses it");
        assert_eq!(cluster.volume("v").0, phase, "{policy}");
        let reasons: Vec<String> = cluster.events().into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(reasons, told.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{policy}");
        // A claim of the same name is another one.
        cluster.create(&Resource::claims(), &claim("c", |_| {}));
        cluster.settle();
        assert_eq!(cluster.claim("c"), pair("Pending", ""), "{policy}");
        assert_eq!(cluster.volume("v").0, phase, "{policy}");
        // Its keeper gives it free by hand.
        cluster.change(&Resource::volumes(), "v", |volume| {
            volume["spec"]["claimRef"].take();
        });
        cluster.settle();
        assert_eq!(cluster.claim("c"), pair("Bound", "v"), "{policy}");
    }
}

#[test]
fn what_is_in_use_outlives_its_deletion() {
    let mut cluster =
        Cluster::with(&[(Resource::volumes(), volume("v", |_| {})), (Resource::claims(), claim("c", |_| {}))]);
    let pod = |node: &str| {
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}})
    };
    cluster.create(&Resource::pods(), &pod("node"));
    cluster.settle();
    cluster.delete(&Resource::volumes(), "v");
    cluster.delete(&Resource::claims(), "c");
    cluster.settle();
    assert_eq!(cluster.claim("c"), pair("Bound", "v"), "the pod uses it");
    assert_eq!(cluster.volume("v"), pair("Bound", "c"));
    cluster.0.api.remove(&Resource::pods(), &Key::new("n", "p"));
    cluster.settle();
    assert_eq!(cluster.get(&Resource::claims(), "c"), Value::Null);
    assert_eq!(cluster.get(&Resource::volumes(), "v"), Value::Null);
}

#[test]
fn a_claim_without_its_volume_is_lost_until_it_is_back() {
    let mut cluster =
        Cluster::with(&[(Resource::volumes(), volume("v", |_| {})), (Resource::claims(), claim("c", |_| {}))]);
    cluster.0.api.remove(&Resource::volumes(), &Key::new("", "v"));
    cluster.settle();
    assert_eq!(cluster.claim("c"), pair("Lost", "v"));
    assert_eq!(cluster.events()[0].0, "ClaimLost");
    cluster.create(&Resource::volumes(), &volume("v", |_| {}));
    cluster.settle();
    assert_eq!((cluster.claim("c"), cluster.volume("v")), (pair("Bound", "v"), pair("Bound", "c")));
}
