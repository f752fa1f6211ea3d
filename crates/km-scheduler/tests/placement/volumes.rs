//! Pods with claims to persistent volumes. The test plays the watches, the API server's writes, and the controller of
//! volumes, in whatever order.

mod orders;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{api::core::v1::PodSpec, serde::de::DeserializeOwned};
use km_podtask::PodKey;
use km_scheduler::core::{Action, ApiFailure, ApiReply, Event, EventKind};
use serde_json::{Value, json};

use crate::{
    SECOND, events,
    world::{World, spec},
};

/// A scheduler, and what the API server has of storage.
struct Disks {
    world: World,
    claims: BTreeMap<String, Value>,
    volumes: BTreeMap<String, Value>,
    version: u64,
    /// So much of the world's log was looked through for writes.
    read: usize,
    /// Writes that haven't arrived.
    writes: Vec<Action>,
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("it is well-formed")
}

fn mounting(claims: &[&str]) -> PodSpec {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } })).collect();
    PodSpec { volumes: Some(read(&json!(volumes))), ..spec("1", "64Mi", None) }
}

impl Disks {
    /// With the classes `local`, whose volumes are made by hand, and `made`; both wait for the first pod.
    fn new(agents: usize) -> Self {
        let mut world = World::new(agents);
        for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "disk.example")] {
            let class = json!({
                "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
            });
            world.send(Event::StorageClass { name: name.to_owned(), class: Some(Arc::new(read(&class))) });
        }
        world.run(SECOND * 2);
        let (claims, volumes) = (BTreeMap::new(), BTreeMap::new());
        Self { world, claims, volumes, version: 0, read: 0, writes: Vec::new() }
    }

    fn change(&mut self, of_claims: bool, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let all = if of_claims { &mut self.claims } else { &mut self.volumes };
        let object = all.get_mut(name).expect("it was made");
        change(object);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    fn claim(&mut self, name: &str, class: &str) {
        let claim = json!({
            "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}") },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": { "requests": { "storage": "1Gi" } },
            },
            "status": { "phase": "Pending" },
        });
        self.claims.insert(name.to_owned(), claim);
        self.change(true, name, |_| {});
        self.show_claim(name);
    }

    /// A volume of the class `local` on a node.
    fn volume(&mut self, name: &str, node: &str) {
        let here = json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }]);
        let volume = json!({
            "metadata": { "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "capacity": { "storage": "1Gi" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": here } },
            },
            "status": { "phase": "Available" },
        });
        self.volumes.insert(name.to_owned(), volume);
        self.change(false, name, |_| {});
        self.show_volume(name);
    }

    fn show_claim(&mut self, name: &str) {
        let claim = self.claims.get(name).map(|claim| Arc::new(read(claim)));
        self.world.send(Event::Claim { id: PodKey::new("default", name), claim });
    }

    fn show_volume(&mut self, name: &str) {
        let volume = self.volumes.get(name).map(|volume| Arc::new(read(volume)));
        self.world.send(Event::Volume { name: name.to_owned(), volume });
    }

    fn run(&mut self, seconds: u32) {
        self.world.run(SECOND * seconds);
        self.collect();
    }

    fn collect(&mut self) {
        let new = self.world.log[self.read..].iter();
        let is_ours = |action: &&Action| matches!(action, Action::ReserveVolume { .. } | Action::SelectNode { .. });
        self.writes.extend(new.filter(is_ours).cloned());
        self.read = self.world.log.len();
    }

    /// What was written since, as `volume for claim` or `claim on node`.
    fn written(&self) -> Vec<String> {
        let one = |action: &Action| match action {
            Action::ReserveVolume { volume, claim, .. } => format!("{volume} for {}", claim.name),
            Action::SelectNode { claim, node, .. } => format!("{} on {node}", claim.name),
            other => panic!("{other:?}"),
        };
        self.writes.iter().map(one).collect()
    }

    /// The oldest write arrives.
    fn apply(&mut self) -> (u64, ApiReply) {
        match self.writes.remove(0) {
            Action::ReserveVolume { op, volume, version, claim, uid } => {
                if self.volumes[&volume]["metadata"]["resourceVersion"] != version.as_str() {
                    return (op, ApiReply::Failed(ApiFailure::Gone));
                }
                self.change(false, &volume, |volume| {
                    volume["spec"]["claimRef"] = json!({ "namespace": "default", "name": claim.name, "uid": uid });
                });
                (op, ApiReply::Done)
            }
            Action::SelectNode { op, claim, version, node } => {
                if self.claims[&claim.name]["metadata"]["resourceVersion"] != version.as_str() {
                    return (op, ApiReply::Failed(ApiFailure::Gone));
                }
                self.change(true, &claim.name, |claim| {
                    claim["metadata"]["annotations"] = json!({ "volume.kubernetes.io/selected-node": node });
                });
                (op, ApiReply::Done)
            }
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, (op, reply): (u64, ApiReply)) {
        self.world.send(Event::Api { op, reply });
        self.collect();
    }

    /// The controller of volumes binds what is reserved, and gives free what a claim doesn't need: when an answer was lost,
    /// the scheduler may have reserved two for one.
    fn bind(&mut self) {
        let reserved = self.volumes.iter().filter_map(|(name, volume)| {
            let claim = volume.pointer("/spec/claimRef/name")?.as_str()?.to_owned();
            Some((name.clone(), claim))
        });
        for (volume, claim) in reserved.collect::<Vec<_>>() {
            if self.claims[&claim]["status"]["phase"] == "Bound" {
                if self.claims[&claim]["spec"]["volumeName"] != volume.as_str() {
                    self.change(false, &volume, |volume| _ = volume["spec"]["claimRef"].take());
                }
                continue;
            }
            self.change(false, &volume, |volume| volume["status"]["phase"] = json!("Bound"));
            self.change(true, &claim, |claim| {
                claim["spec"]["volumeName"] = json!(volume);
                claim["status"]["phase"] = json!("Bound");
            });
        }
    }

    fn state(&mut self, pod: &PodKey) -> String {
        self.world.core.explain_page(self.world.now, pod).expect("there is such a pod").state
    }

    /// No task runs a pod with a claim that isn't bound.
    fn check(&self) {
        for (id, task) in self.world.mesos.agents.values().flat_map(|agent| &agent.tasks) {
            let volumes = task.pod().spec.as_ref().and_then(|spec| spec.volumes.as_ref());
            for claim in volumes.into_iter().flatten().filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
                let phase = &self.claims[&claim.claim_name]["status"]["phase"];
                assert_eq!(phase, "Bound", "{id} was launched too early");
            }
        }
    }
}

#[test]
fn an_immediate_claim_is_waited_for() {
    let mut disks = Disks::new(2);
    let pod = disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    disks.claim("c", "");
    disks.run(5);
    disks.volume("v", "host2");
    disks.change(false, "v", |volume| volume["spec"]["claimRef"] = json!({ "namespace": "default", "name": "c" }));
    disks.show_volume("v");
    // The volume is named before the claim is bound.
    disks.change(true, "c", |claim| claim["spec"]["volumeName"] = json!("v"));
    disks.show_claim("c");
    disks.run(5);
    assert!(!disks.world.is_running(&pod));
    let said = events(&disks.world, EventKind::FailedScheduling);
    assert!(said[0].starts_with("0/2 nodes are available: persistentvolumeclaim \"c\" not found."), "{said:?}");
    assert!(said[1].starts_with("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."));
    assert_eq!(said.len(), 2, "{said:?}");
    disks.change(true, "c", |claim| claim["status"]["phase"] = json!("Bound"));
    disks.show_claim("c");
    disks.run(3);
    assert_eq!(disks.world.node_of(&pod).as_deref(), Some("host2"));
    assert_eq!(disks.written(), [""; 0], "the controller binds it");
}

#[test]
fn a_delayed_claim_is_bound_for_the_node_of_its_pod() {
    let mut disks = Disks::new(2);
    disks.volume("v", "host2");
    disks.claim("c", "local");
    let pod = disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    assert_eq!(disks.written(), ["v for c"]);
    assert_eq!(disks.state(&pod), "waits until its persistent volumes are bound for host2");
    let reply = disks.apply();
    disks.answer(reply);
    disks.show_volume("v");
    disks.run(5);
    disks.bind();
    disks.show_volume("v");
    disks.run(5);
    assert!(!disks.world.is_running(&pod), "the claim isn't seen to be bound");
    disks.show_claim("c");
    disks.run(3);
    assert_eq!(disks.world.node_of(&pod).as_deref(), Some("host2"));
    assert_eq!(disks.written(), [""; 0]);
    assert_eq!(events(&disks.world, EventKind::FailedScheduling), [""; 0]);
}

#[test]
fn a_provisioner_is_told_the_node() {
    let mut disks = Disks::new(1);
    disks.claim("c", "made");
    let pod = disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    assert_eq!(disks.written(), ["c on host1"]);
    let reply = disks.apply();
    disks.answer(reply);
    disks.show_claim("c");
    disks.run(5);
    disks.volume("new", "host1");
    disks.change(false, "new", |volume| {
        volume["spec"]["storageClassName"] = json!("made");
        volume["spec"]["claimRef"] = json!({ "namespace": "default", "name": "c", "uid": "uid-c" });
    });
    disks.show_volume("new");
    disks.bind();
    disks.show_claim("c");
    disks.show_volume("new");
    disks.run(3);
    assert!(disks.world.is_running(&pod));
    assert_eq!(disks.written(), [""; 0]);
}

#[test]
fn two_pods_do_not_share_a_volume() {
    let mut disks = Disks::new(1);
    disks.volume("v", "host1");
    disks.claim("c", "local");
    disks.claim("d", "local");
    disks.world.create("p", mounting(&["c"]));
    let second = disks.world.create("q", mounting(&["d"]));
    disks.run(5);
    assert_eq!(disks.written(), ["v for c"]);
    let why = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.";
    let said = events(&disks.world, EventKind::FailedScheduling);
    assert!(said.len() == 1 && said[0].starts_with(why), "{said:?}");
    assert_eq!(disks.state(&second), "waits for a place");
    disks.volume("w", "host1");
    disks.run(5);
    assert_eq!(disks.written(), ["v for c", "w for d"]);
}

#[test]
fn a_volume_that_changed_meanwhile_is_reserved_anew() {
    let mut disks = Disks::new(1);
    disks.volume("v", "host1");
    disks.claim("c", "local");
    disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    disks.change(false, "v", |volume| volume["metadata"]["labels"] = json!({ "a": "b" }));
    let reply = disks.apply();
    disks.answer(reply);
    disks.show_volume("v");
    disks.run(5);
    assert_eq!(disks.written(), ["v for c"]);
    assert!(matches!(disks.apply(), (_, ApiReply::Done)));
}

#[test]
fn a_reservation_that_was_taken_back_unseen_is_made_anew() {
    let mut disks = Disks::new(1);
    disks.volume("v", "host1");
    disks.claim("c", "local");
    disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    let reply = disks.apply();
    disks.answer(reply);
    disks.show_claim("c");
    disks.run(30);
    assert_eq!(disks.written(), [""; 0], "the watch is only slow");
    disks.change(false, "v", |volume| _ = volume["spec"]["claimRef"].take());
    disks.show_volume("v");
    disks.run(5);
    assert_eq!(disks.written(), ["v for c"]);
}

#[test]
fn a_node_that_was_taken_back_unseen_is_told_anew() {
    let mut disks = Disks::new(1);
    disks.claim("c", "made");
    disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    let reply = disks.apply();
    disks.answer(reply);
    disks.run(30);
    assert_eq!(disks.written(), [""; 0], "the watch is only slow");
    disks.change(true, "c", |claim| _ = claim["metadata"]["annotations"].take());
    disks.show_claim("c");
    disks.run(5);
    assert_eq!(disks.written(), ["c on host1"]);
}

#[test]
fn a_late_refusal_ends_only_its_own_reservation() {
    let mut disks = Disks::new(1);
    disks.volume("v", "host1");
    disks.claim("c", "local");
    let pod = disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    disks.change(false, "v", |volume| volume["metadata"]["labels"] = json!({ "a": "b" }));
    let late = disks.apply();
    disks.show_volume("v");
    disks.run(5);
    assert_eq!(disks.written(), ["v for c"], "what is known of the volume now is enough to try again");
    disks.answer(late);
    disks.run(30);
    assert_eq!(disks.written(), ["v for c"], "it is under way still");
    assert_eq!(disks.state(&pod), "waits until its persistent volumes are bound for host1");
}

#[test]
fn a_pod_whose_volume_went_away_keeps_no_room() {
    let mut disks = Disks::new(1);
    disks.volume("v", "host1");
    disks.claim("c", "local");
    let spec_of =
        |cpu: &str, claims: &[&str]| PodSpec { containers: spec(cpu, "64Mi", None).containers, ..mounting(claims) };
    let first = disks.world.create("p", spec_of("3", &["c"]));
    disks.run(5);
    let second = disks.world.create("q", spec_of("3", &[]));
    disks.run(5);
    assert!(!disks.world.is_running(&second), "room is kept");
    disks.volumes.clear();
    disks.show_volume("v");
    disks.writes.clear();
    disks.run(30);
    assert!(disks.world.is_running(&second) && !disks.world.is_running(&first));
}

#[test]
fn a_new_scheduler_goes_on_with_what_was_begun() {
    let mut disks = Disks::new(2);
    disks.volume("v", "host1");
    disks.volume("w", "host2");
    disks.claim("c", "local");
    let pod = disks.world.create("p", mounting(&["c"]));
    disks.run(5);
    let first = disks.written();
    disks.apply();
    disks.world.restart();
    let class = json!({
        "metadata": { "name": "local" }, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    disks.world.send(Event::StorageClass { name: "local".to_owned(), class: Some(Arc::new(read(&class))) });
    ["v", "w"].into_iter().for_each(|name| disks.show_volume(name));
    disks.show_claim("c");
    disks.run(30);
    assert_eq!(disks.written(), [""; 0], "{first:?} was done already");
    disks.bind();
    disks.show_claim("c");
    ["v", "w"].into_iter().for_each(|name| disks.show_volume(name));
    disks.run(3);
    assert!(disks.world.is_running(&pod));
}
