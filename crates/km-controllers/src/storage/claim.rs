//! A claim's way to its volume.

use super::{
    annotation, binding, class_of, event, fit, is_delayed, is_deleting, is_reserved_for, patch, without_finalizer,
};
use crate::core::{Action, Key, Plan, Resource, World, text};
use jiff::Timestamp;
use km_kube::keys::{BIND_COMPLETED, CLAIM_PROTECTION, DEFAULT_CLASS, NO_PROVISIONER, SELECTED_NODE};
use serde_json::{Value, json};

/// Annotation by which external provisioners find the claims that are theirs.
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Provisioners of this prefix are parts of Kubernetes itself, and not here.
const BUILT_IN: &str = "kubernetes.io/";

pub(crate) fn reconcile(world: &World, key: &Key, now: Timestamp) -> Plan {
    let Some(claim) = world.get(&Resource::claims(), key) else { return Plan::default() };
    if is_deleting(claim) && !is_used(world, key) {
        return Plan::new(without_finalizer(Resource::claims(), claim, CLAIM_PROTECTION).into_iter().collect());
    }
    let named = text(claim, "/spec/volumeName");
    let volume = world.get(&Resource::volumes(), &Key::new("", named));
    Plan::new(match (annotation(claim, BIND_COMPLETED).is_empty(), named.is_empty()) {
        (false, _) => bound(claim, volume, now),
        // It goes: it gets nothing any more.
        (true, _) if is_deleting(claim) => Vec::new(),
        (true, true) => unbound(world, claim, now),
        (true, false) => asks_for(claim, named, volume, now),
    })
}

/// Whether a pod that has its node, and has not ended, uses the claim. The scheduler lets no other pod at a claim that is
/// being deleted.
fn is_used(world: &World, key: &Key) -> bool {
    let pods = world.pods_within(&key.namespace);
    let mut users = pods.filter(|pod| pod.claims.contains(&key.name));
    users.any(|pod| !pod.is_terminal() && (!pod.node.is_empty() || pod.is_launched))
}

/// It was bound, so it has a volume or has lost it.
fn bound(claim: &Value, volume: Option<&Value>, now: Timestamp) -> Vec<Action> {
    let lost = |reason: &str, why: &str| {
        let phase = binding::claim_phase(claim, "Lost");
        phase.into_iter().chain([warning(claim, reason, why, now)]).collect()
    };
    let Some(volume) = volume else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    let free = text(volume, "/spec/claimRef/name").is_empty();
    if free || is_reserved_for(volume, claim) {
        return binding::step(volume, claim).into_iter().collect();
    }
    lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

/// Its user named a volume.
fn asks_for(claim: &Value, name: &str, volume: Option<&Value>, now: Timestamp) -> Vec<Action> {
    let waits = |reason: &str, why: &str| {
        let phase = binding::claim_phase(claim, "Pending");
        phase.into_iter().chain([warning(claim, reason, why, now)]).collect()
    };
    let Some(volume) = volume else { return waits("FailedBinding", &format!("volume \"{name}\" not found")) };
    if text(volume, "/spec/claimRef/name").is_empty() {
        return match fit::lacks(volume, claim, false) {
            None => binding::step(volume, claim).into_iter().collect(),
            Some(why) => waits("VolumeMismatch", &format!("Cannot bind to requested volume \"{name}\": {why}")),
        };
    }
    if is_reserved_for(volume, claim) {
        return binding::step(volume, claim).into_iter().collect();
    }
    waits("FailedBinding", &format!("volume \"{name}\" already bound to a different claim."))
}

/// It takes what is there.
fn unbound(world: &World, claim: &Value, now: Timestamp) -> Vec<Action> {
    if claim["spec"].get("storageClassName").is_none_or(Value::is_null)
        && let Some(class) = default_class(world)
    {
        let change = json!({"spec": {"storageClassName": class}});
        return vec![patch(Resource::claims(), claim, None, change)];
    }
    let delayed = is_delayed(world, claim);
    if let Some(volume) = fit::best(world, claim, !delayed) {
        return binding::step(volume, claim).into_iter().collect();
    }
    let told = if delayed && annotation(claim, SELECTED_NODE).is_empty() {
        vec![waits_for_pod(world, claim, now)]
    } else {
        provision(world, claim, now)
    };
    binding::claim_phase(claim, "Pending").into_iter().chain(told).collect()
}

fn waits_for_pod(world: &World, claim: &Value, now: Timestamp) -> Action {
    let (namespace, name) = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name").to_owned());
    let user = world.pods_within(namespace).find(|pod| !pod.is_terminal() && pod.claims.contains(&name));
    match user {
        Some(pod) => {
            let why = format!("waiting for pod {} to be scheduled", pod.name);
            event(&Resource::claims(), claim, "Normal", "WaitForPodScheduled", &why, now)
        }
        None => {
            let why = "waiting for first consumer to be created before binding";
            event(&Resource::claims(), claim, "Normal", "WaitForFirstConsumer", why, now)
        }
    }
}

/// No volume fits. Only provisioners that run beside the cluster make any: they are told by an annotation.
fn provision(world: &World, claim: &Value, now: Timestamp) -> Vec<Action> {
    let name = text(claim, "/spec/storageClassName");
    if name.is_empty() {
        let why = "no persistent volumes available for this claim and no storage class is set";
        return vec![event(&Resource::claims(), claim, "Normal", "FailedBinding", why, now)];
    }
    let Some(class) = class_of(world, claim) else {
        let why = format!("storageclass.storage.k8s.io \"{name}\" not found");
        return vec![warning(claim, "ProvisioningFailed", &why, now)];
    };
    let provisioner = text(class, "/provisioner");
    if provisioner == NO_PROVISIONER {
        let why = format!(
            "no persistent volumes available for this claim, and storage class \"{name}\" makes none (provisioner \
             {NO_PROVISIONER})"
        );
        return vec![event(&Resource::claims(), claim, "Normal", "FailedBinding", &why, now)];
    }
    if provisioner.starts_with(BUILT_IN) {
        let why = format!(
            "no volume plugin matched name: {provisioner}: only external provisioners make volumes here; make a \
             PersistentVolume of storage class \"{name}\" by hand, or use another class"
        );
        return vec![warning(claim, "ProvisioningFailed", &why, now)];
    }
    let why = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
         registered."
    );
    let mut actions = Vec::new();
    if annotation(claim, STORAGE_PROVISIONER) != provisioner {
        let change = json!({"metadata": {"annotations": {STORAGE_PROVISIONER: provisioner}}});
        actions.push(patch(Resource::claims(), claim, None, change));
    }
    actions.push(event(&Resource::claims(), claim, "Normal", "ExternalProvisioning", &why, now));
    actions
}

/// The newest of the classes that are marked so; of equals the first by name.
fn default_class(world: &World) -> Option<String> {
    let classes = world.within(&Resource::storage_classes(), "");
    let marked: Vec<&Value> = classes.filter(|class| annotation(class, DEFAULT_CLASS) == "true").collect();
    let created = |class: &Value| text(class, "/metadata/creationTimestamp").to_owned();
    let newest = marked.iter().map(|class| created(class)).max()?;
    let found = marked.into_iter().find(|class| created(class) == newest)?;
    Some(text(found, "/metadata/name").to_owned())
}

fn warning(claim: &Value, reason: &str, message: &str, now: Timestamp) -> Action {
    event(&Resource::claims(), claim, "Warning", reason, message, now)
}
