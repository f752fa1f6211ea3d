//! What holds in any order of events.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Volume(u8, u8),
    Claim(u8, u8),
    /// A user asks for one of the volumes.
    Named(u8, u8),
    DeleteClaim(u8),
    /// A user frees a released volume.
    Free(u8),
    /// The scheduler reserves a volume for a delayed claim.
    Reserve(u8, u8),
    Deliver(usize),
    Begin,
    Act(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = 0..4_u8;
    let step = prop_oneof![
        2 => (few.clone(), 1..4_u8).prop_map(|(name, size)| Step::Volume(name, size)),
        2 => (few.clone(), 1..4_u8).prop_map(|(name, size)| Step::Claim(name, size)),
        1 => (few.clone(), few.clone()).prop_map(|(name, volume)| Step::Named(name, volume)),
        1 => few.clone().prop_map(Step::DeleteClaim),
        1 => few.clone().prop_map(Step::Free),
        1 => (few.clone(), few).prop_map(|(claim, volume)| Step::Reserve(claim, volume)),
        6 => (0..8_usize).prop_map(Step::Deliver),
        6 => Just(Step::Begin),
        8 => (0..8_usize).prop_map(Step::Act),
    ];
    prop::collection::vec(step, 0..160)
}

/// Odd ones are of the delayed class.
fn class_for(number: u8) -> impl FnOnce(&mut Value) {
    of_class(if number % 2 == 1 { "later" } else { "" })
}

impl Cluster {
    fn take(&mut self, step: &Step) {
        let size = |size: u8| json!(format!("{size}Gi"));
        // What is there already stays.
        match *step {
            Step::Volume(name, bytes) => {
                let mut new = volume(&format!("v{name}"), class_for(name));
                new["spec"]["capacity"]["storage"] = size(bytes);
                let _there = self.0.api.create(&Resource::volumes(), "", new);
            }
            Step::Claim(name, bytes) => {
                let mut new = claim(&format!("c{name}"), class_for(name));
                new["spec"]["resources"]["requests"]["storage"] = size(bytes);
                let _there = self.0.api.create(&Resource::claims(), "n", new);
            }
            Step::Named(name, volume) => {
                let mut new = claim(&format!("c{name}"), class_for(name));
                new["spec"]["volumeName"] = json!(format!("v{volume}"));
                let _there = self.0.api.create(&Resource::claims(), "n", new);
            }
            Step::DeleteClaim(name) => self.delete(&Resource::claims(), &format!("c{name}")),
            Step::Free(name) => self.change(&Resource::volumes(), &format!("v{name}"), |volume| {
                if matches!(text(volume, "/status/phase"), "Released" | "Failed") {
                    volume["spec"]["claimRef"].take();
                }
            }),
            Step::Reserve(claim, volume) => self.reserve(claim, volume),
            Step::Deliver(choice) => _ = self.0.deliver(choice),
            Step::Begin => _ = self.0.begin(),
            Step::Act(choice) => _ = self.0.act(choice),
        }
    }

    fn reserve(&mut self, claim: u8, volume: u8) {
        let claim = self.get(&Resource::claims(), &format!("c{claim}"));
        let delayed = text(&claim, "/spec/storageClassName") == "later" && text(&claim, "/spec/volumeName").is_empty();
        if !delayed || is_deleting(&claim) {
            return;
        }
        self.change(&Resource::volumes(), &format!("v{volume}"), |volume| {
            let free = volume["spec"].get("claimRef").is_none_or(Value::is_null);
            if free && fit::lacks(volume, &claim, false).is_none() {
                volume["spec"]["claimRef"] =
                    json!({"namespace": "n", "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]});
                volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
            }
        });
    }

    /// Uid of each claim whose binding is complete, with its volume.
    fn bindings(&self) -> BTreeMap<String, String> {
        let claims = self.0.api.all(&Resource::claims());
        let complete = claims.iter().filter(|claim| !annotation(claim, "pv.kubernetes.io/bind-completed").is_empty());
        let of = |claim: &Value| (text(claim, "/metadata/uid").to_owned(), text(claim, "/spec/volumeName").to_owned());
        complete.map(of).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_volume_has_two_claims_and_no_claim_loses_its_volume(steps in steps()) {
        let mut cluster = Cluster::new();
        cluster.create(&Resource::storage_classes(), &class("later", "kubernetes.io/no-provisioner", true));
        let mut before = cluster.bindings();
        for step in &steps {
            cluster.take(step);
            let now = cluster.bindings();
            let mut volumes: Vec<&String> = now.values().collect();
            volumes.sort();
            volumes.dedup();
            prop_assert_eq!(volumes.len(), now.len(), "a volume has two claims");
            for (uid, volume) in &before {
                prop_assert!(now.get(uid).is_none_or(|now| now == volume), "a bound claim changed its volume");
            }
            for claim in cluster.0.api.all(&Resource::claims()) {
                let uid = text(&claim, "/metadata/uid");
                if now.contains_key(uid) {
                    prop_assert_ne!(text(&claim, "/status/phase"), "Lost");
                    let volume = cluster.get(&Resource::volumes(), text(&claim, "/spec/volumeName"));
                    prop_assert_eq!(text(&volume, "/spec/claimRef/uid"), uid, "its volume is for another");
                }
            }
            before = now;
        }
        cluster.settle();
        for claim in cluster.0.api.all(&Resource::claims()) {
            let (phase, named) = (text(&claim, "/status/phase"), text(&claim, "/spec/volumeName"));
            prop_assert!(!is_deleting(&claim), "nothing uses it, but it stays");
            if phase == "Bound" {
                prop_assert_eq!(cluster.volume(named), pair("Bound", text(&claim, "/metadata/name")));
                continue;
            }
            prop_assert_eq!(phase, "Pending");
            let immediate = text(&claim, "/spec/storageClassName").is_empty() && named.is_empty();
            for volume in cluster.0.api.all(&Resource::volumes()) {
                let free = text(&volume, "/status/phase") == "Available"
                    && volume["spec"].get("claimRef").is_none_or(Value::is_null);
                prop_assert!(!immediate || !free || fit::lacks(&volume, &claim, false).is_some(), "it could be bound");
            }
        }
        for volume in cluster.0.api.all(&Resource::volumes()) {
            let uid = text(&volume, "/spec/claimRef/uid");
            let claims = cluster.0.api.all(&Resource::claims());
            let claim = claims.iter().find(|claim| !uid.is_empty() && text(claim, "/metadata/uid") == uid);
            let want = match (uid.is_empty(), claim) {
                (true, _) => "Available",
                (false, Some(_)) => "Bound",
                (false, None) => "Released",
            };
            prop_assert_eq!(text(&volume, "/status/phase"), want, "{}", volume);
        }
    }
}
