//! Persistent volume claims, their volumes and classes: what placement is told of them, and the binding of claims whose
//! class waits for the first pod (`WaitForFirstConsumer`).
//!
//! A pod is launched only when all its claims are bound. For one that can be bound by its node alone, a node is chosen as
//! for a launch, a volume there is reserved (or the provisioner is told the node), and the pod waits. Room is kept for it
//! meanwhile, and a bound volume says by its node affinity where the pod goes. What the controller of volumes makes of the
//! reservation is seen by the watches; nothing is lost with this scheduler but the room.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use km_kube::keys::SELECTED_NODE;
use km_placement::{Binding, Need, PendingPod, Way};
use km_podtask::PodKey;

use super::{Action, ApiReply, Core, effects::Then};

/// What the API server says of claims and volumes, and what is being written about them.
#[derive(Default)]
pub(super) struct Claims {
    claims: BTreeMap<PodKey, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// For which claim a volume is being reserved.
    reserving: BTreeMap<String, Writing<PodKey>>,
    /// Which node a claim is being told.
    selecting: BTreeMap<PodKey, Writing<String>>,
}

/// What is being written to an object, on the condition that it still is of a resource version. Once the watch shows
/// another version, that says it all: either it is after the write, whatever became of it, or the write will be refused.
struct Writing<T> {
    what: T,
    version: String,
}

impl<T> Writing<T> {
    fn is_on(&self, object: Option<&ObjectMeta>) -> bool {
        object.is_some_and(|object| object.resource_version.as_deref().unwrap_or_default() == self.version)
    }
}

impl Claims {
    fn is_bound(&self, claim: &PodKey) -> bool {
        let claim = self.claims.get(claim);
        claim.and_then(|claim| claim.status.as_ref()?.phase.as_deref()) == Some("Bound")
    }

    pub(super) fn are_bound(&self, need: &Need) -> bool {
        keys(need).all(|claim| self.is_bound(&claim))
    }

    /// Whether something was begun that binds the claim. Costs a look at every volume.
    fn is_begun(&self, key: &PodKey) -> bool {
        let Some(claim) = self.claims.get(key) else { return false };
        let names = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).is_some_and(|name| !name.is_empty());
        let told = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(SELECTED_NODE));
        let reserved = || self.volumes.values().any(|volume| reserved_for(volume).as_ref() == Some(key));
        let writing = self.selecting.contains_key(key) || self.reserving.values().any(|writing| writing.what == *key);
        names || told || writing || reserved()
    }

    /// Whether the pod has nothing to do but to wait for the controller of volumes.
    fn are_under_way(&self, need: &Need) -> bool {
        let open: Vec<PodKey> = keys(need).filter(|claim| !self.is_bound(claim)).collect();
        !open.is_empty() && open.iter().all(|claim| self.is_begun(claim))
    }

    /// The claim with what is being written about it.
    fn claim(&self, key: &PodKey) -> Option<Arc<PersistentVolumeClaim>> {
        let mut claim = self.claims.get(key).cloned()?;
        if let Some(Writing { what: node, .. }) = self.selecting.get(key) {
            let annotations = Arc::make_mut(&mut claim).metadata.annotations.get_or_insert_default();
            annotations.insert(SELECTED_NODE.to_owned(), node.clone());
        }
        Some(claim)
    }

    /// The volume with what is being written about it.
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        let mut volume = self.volumes.get(name).cloned()?;
        if let Some(Writing { what: claim, .. }) = self.reserving.get(name) {
            let reference = Arc::make_mut(&mut volume).spec.get_or_insert_default().claim_ref.get_or_insert_default();
            reference.namespace = Some(claim.namespace.clone());
            reference.name = Some(claim.name.clone());
        }
        Some(volume)
    }
}

/// The claim that a volume is reserved for.
fn reserved_for(volume: &PersistentVolume) -> Option<PodKey> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(PodKey::new(reference.namespace.as_deref()?, reference.name.as_deref()?))
}

fn keys(need: &Need) -> impl Iterator<Item = PodKey> {
    need.claims().filter_map(|id| id.split_once('/')).map(|(namespace, name)| PodKey::new(namespace, name))
}

impl Core {
    pub(super) fn on_claim(&mut self, now: Duration, key: PodKey, claim: Option<Arc<PersistentVolumeClaim>>) {
        let metadata = claim.as_deref().map(|claim| &claim.metadata);
        if self.claims.selecting.get(&key).is_some_and(|writing| !writing.is_on(metadata)) {
            self.claims.selecting.remove(&key);
        }
        match claim {
            Some(claim) => self.claims.claims.insert(key.clone(), claim),
            None => self.claims.claims.remove(&key),
        };
        self.feed_claim(&key);
        self.storage_changed(now);
    }

    pub(super) fn on_volume(&mut self, now: Duration, name: String, volume: Option<Arc<PersistentVolume>>) {
        let metadata = volume.as_deref().map(|volume| &volume.metadata);
        if self.claims.reserving.get(&name).is_some_and(|writing| !writing.is_on(metadata)) {
            self.claims.reserving.remove(&name);
        }
        match volume {
            Some(volume) => self.claims.volumes.insert(name.clone(), volume),
            None => self.claims.volumes.remove(&name),
        };
        self.feed_volume(&name);
        self.storage_changed(now);
    }

    pub(super) fn on_storage_class(&mut self, now: Duration, name: &str, class: Option<&StorageClass>) {
        self.feed.engine.set_storage_class(name, class);
        self.storage_changed(now);
    }

    fn feed_claim(&mut self, key: &PodKey) {
        let claim = self.claims.claim(key);
        self.feed.engine.set_claim(&key.to_string(), claim.as_deref());
    }

    fn feed_volume(&mut self, name: &str) {
        let volume = self.claims.volume(name);
        self.feed.engine.set_volume(name, volume.as_deref());
    }

    /// Pods with claims may find a place now, except those that wait for a binding to end. Costs a look at every waiting
    /// pod with claims.
    fn storage_changed(&mut self, now: Duration) {
        let helped = self.queue.with_claims();
        let mut helped: Vec<PodKey> = helped
            .filter(|(_, waiting)| !waiting.binding || !self.claims.are_under_way(&waiting.pending.need))
            .map(|(key, _)| key.clone())
            .collect();
        helped.sort_unstable();
        for key in helped {
            self.end_binding(&key);
            self.queue.stir_one(now, &key);
            self.demand.touch(now);
        }
    }

    /// For pods that can't be launched yet because of their claims: finds a node, and binds what their node decides.
    pub(super) fn bind_claims(&mut self, now: Duration, out: &mut Vec<Action>) {
        // Those whose binding was begun hear of its end by the watches.
        let open = self.queue.with_claims().filter(|(_, waiting)| waiting.not_before <= now && !waiting.binding);
        let open = open.filter(|(_, waiting)| !self.claims.are_bound(&waiting.pending.need));
        let mut open: Vec<(PodKey, PendingPod)> =
            open.map(|(key, waiting)| (key.clone(), waiting.pending.clone())).collect();
        open.sort_by_key(|(_, pod)| (std::cmp::Reverse(pod.need.priority), pod.queued));
        for (key, pod) in open {
            let Some(placement) = self.feed.engine.try_place(&pod) else { continue };
            let node = placement.node.clone();
            let bindings = self.feed.engine.bindings(&pod.need, &node);
            self.feed.engine.undo(placement);
            self.feed.pod(key.clone());
            // The same rule let it onto the node, so there are bindings.
            self.bind_for(&key, &node, bindings.unwrap_or_default(), out);
        }
    }

    fn bind_for(&mut self, key: &PodKey, node: &str, bindings: Vec<Binding>, out: &mut Vec<Action>) {
        for Binding { claim, way, .. } in bindings.into_iter().filter(|binding| !binding.begun) {
            let Some((namespace, name)) = claim.split_once('/') else { continue };
            self.begin(PodKey::new(namespace, name), way, node, out);
        }
        self.queue.amend(key, |waiting| {
            waiting.binding = true;
            waiting.nominated = Some(node.to_owned());
            waiting.wants_since = None;
            waiting.retry = None;
        });
    }

    fn begin(&mut self, claim: PodKey, way: Way, node: &str, out: &mut Vec<Action>) {
        let Some(known) = self.claims.claims.get(&claim) else { return };
        match way {
            Way::Reserve(volume) => {
                let Some(there) = self.claims.volumes.get(&volume) else { return };
                let uid = known.metadata.uid.clone().unwrap_or_default();
                let version = there.metadata.resource_version.clone().unwrap_or_default();
                tracing::info!(%claim, volume, node, "a volume is reserved for the claim");
                let writing = Writing { what: claim.clone(), version: version.clone() };
                self.claims.reserving.insert(volume.clone(), writing);
                self.feed_volume(&volume);
                let then = Then::Reserved { volume: volume.clone(), version: version.clone() };
                self.effects.start(then, out, |op| Action::ReserveVolume { op, volume, version, claim, uid });
            }
            Way::Provision => {
                let version = known.metadata.resource_version.clone().unwrap_or_default();
                tracing::info!(%claim, node, "the claim's volume is to be made for the node");
                let writing = Writing { what: node.to_owned(), version: version.clone() };
                self.claims.selecting.insert(claim.clone(), writing);
                self.feed_claim(&claim);
                let then = Then::Selected { claim: claim.clone(), version: version.clone() };
                let node = node.to_owned();
                self.effects.start(then, out, |op| Action::SelectNode { op, claim, version, node });
            }
        }
    }

    /// What was written will be seen; what was refused is forgotten, and tried anew after a pause, as the watch may show
    /// first why it was. An answer that comes late says nothing of what was begun since.
    pub(super) fn on_reserved(&mut self, now: Duration, volume: &str, version: &str, reply: &ApiReply) {
        if matches!(reply, ApiReply::Failed(_))
            && self.claims.reserving.get(volume).is_some_and(|writing| writing.version == version)
            && let Some(Writing { what: claim, .. }) = self.claims.reserving.remove(volume)
        {
            self.feed_volume(volume);
            self.bind_again(now, &claim);
        }
    }

    /// See [`Core::on_reserved`].
    pub(super) fn on_selected(&mut self, now: Duration, claim: &PodKey, version: &str, reply: &ApiReply) {
        let refused = matches!(reply, ApiReply::Failed(_));
        if refused && self.claims.selecting.get(claim).is_some_and(|writing| writing.version == version) {
            self.claims.selecting.remove(claim);
            self.feed_claim(claim);
            self.bind_again(now, claim);
        }
    }

    fn bind_again(&mut self, now: Duration, claim: &PodKey) {
        let users =
            self.queue.with_claims().filter(|(_, waiting)| keys(&waiting.pending.need).any(|other| other == *claim));
        let users: BTreeSet<PodKey> = users.map(|(key, _)| key.clone()).collect();
        let pause = self.config.backoff.0;
        for key in users {
            self.end_binding(&key);
            self.queue.amend(&key, |waiting| waiting.retry = Some(now + pause));
        }
    }

    /// A pod waits for no binding any more. If nothing came of it, no room is kept on the node that was chosen for it.
    fn end_binding(&mut self, key: &PodKey) {
        let Some(waiting) = self.queue.get(key).filter(|waiting| waiting.binding) else { return };
        let bound = self.claims.are_bound(&waiting.pending.need);
        self.queue.amend(key, |waiting| {
            waiting.binding = false;
            if !bound {
                waiting.nominated = None;
            }
        });
        self.feed.pod(key.clone());
    }
}
