//! Whether a pod's claims let it onto a node: the plugins `VolumeRestrictions`, `NodeVolumeLimits`, `VolumeBinding` and
//! `VolumeZone` of Kubernetes, in their order.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Claim, ONE_POD, Storage, Volume, ZONE_LABELS, ZONE_SEPARATOR};
use crate::{
    fit::{Change, Node},
    need::Need,
    reasons::Refusal,
};

impl Storage {
    /// What is wrong with the pod's claims whatever the node.
    pub fn usable(&self, need: &Need) -> Result<(), Refusal> {
        for id in &need.claims {
            let name = || id.rsplit('/').next().unwrap_or_default();
            let Some(claim) = self.claims.get(&**id) else {
                return Err(Refusal::Claim(format!("persistentvolumeclaim \"{}\" not found", name())));
            };
            if claim.lost {
                let volume = claim.volume.as_deref().unwrap_or_default();
                let text = "bound to non-existent persistentvolume";
                return Err(Refusal::Claim(format!("persistentvolumeclaim \"{}\" {text} \"{volume}\"", name())));
            }
            if claim.deleting {
                return Err(Refusal::Claim(format!("persistentvolumeclaim \"{}\" is being deleted", name())));
            }
            if claim.binding || (claim.volume.is_none() && !self.is_delayed(claim)) {
                return Err(Refusal::Claim("pod has unbound immediate PersistentVolumeClaims".to_owned()));
            }
        }
        Ok(())
    }

    fn is_delayed(&self, claim: &Claim) -> bool {
        self.classes.get(&claim.class).is_some_and(|class| class.delayed)
    }

    /// Whether the node will do. The costs grow with the number of volumes where a claim is to be bound there.
    pub fn judge(&self, id: u32, node: &Node, need: &Need, change: &Change<'_>) -> Result<(), Refusal> {
        if need.claims.is_empty() {
            return Ok(());
        }
        self.usable(need)?;
        if need.claims.iter().any(|claim| self.is_taken(claim, change)) {
            return Err(Refusal::ClaimTaken);
        }
        if self.exceeds_limits(id, node, need, change) {
            return Err(Refusal::VolumeLimit);
        }
        let claims: Vec<(&Arc<str>, &Claim)> =
            need.claims.iter().filter_map(|id| Some((id, self.claims.get(&**id)?))).collect();
        let (bound, open): (Vec<_>, Vec<_>) = claims.into_iter().partition(|(_, claim)| claim.volume.is_some());
        let names = bound.iter().filter_map(|(_, claim)| claim.volume.as_ref());
        let volumes: Option<Vec<&Volume>> = names.map(|name| self.volumes.get(name)).collect();
        let Some(volumes) = volumes else { return Err(Refusal::VolumeMissing) };
        if volumes.iter().any(|volume| !volume.is_reached_from(node)) {
            return Err(Refusal::VolumeAffinity);
        }
        if self.choose(node, open).is_none() {
            return Err(Refusal::NoVolume);
        }
        if volumes.iter().any(|volume| !volume.is_in_zone_of(node)) {
            return Err(Refusal::VolumeZone);
        }
        Ok(())
    }

    /// Whether a claim for a single pod has one already.
    fn is_taken(&self, id: &Arc<str>, change: &Change<'_>) -> bool {
        let single = self.claims.get(&**id).is_some_and(|claim| claim.modes.contains(ONE_POD));
        let uses = |pods: &[&Need]| pods.iter().filter(|pod| pod.claims.contains(id)).count();
        let users: usize = self.users.get(id).into_iter().flat_map(BTreeMap::values).sum();
        single && users + uses(&change.come) > uses(&change.gone)
    }

    /// Whether more volumes would be attached than the drivers on the node can. One that is there already costs nothing.
    fn exceeds_limits(&self, id: u32, node: &Node, need: &Need, change: &Change<'_>) -> bool {
        if node.facts.volume_limits.is_empty() {
            return false;
        }
        let leaving = |claim: &Arc<str>| change.gone.iter().filter(|pod| pod.claims.contains(claim)).count();
        let here = self.on.get(&id).into_iter().flatten();
        let staying = here.filter(|(claim, users)| **users > leaving(claim)).map(|(claim, _)| claim);
        let staying: BTreeSet<(&str, &str)> = staying
            .chain(change.come.iter().flat_map(|pod| &pod.claims))
            .filter_map(|claim| self.attached(claim))
            .collect();
        let new: BTreeSet<(&str, &str)> = need.claims.iter().filter_map(|claim| self.attached(claim)).collect();
        node.facts.volume_limits.iter().any(|(driver, limit)| {
            let count = |all: &mut dyn Iterator<Item = &(&str, &str)>| all.filter(|(of, _)| of == driver).count();
            let more = count(&mut new.difference(&staying));
            more > 0 && count(&mut staying.iter()) + more > *limit
        })
    }

    /// The driver that attaches a claim's volume, and what it calls it. A volume that is to be made yet is called as its
    /// claim.
    fn attached<'a>(&'a self, id: &'a Arc<str>) -> Option<(&'a str, &'a str)> {
        let claim = self.claims.get(&**id)?;
        match &claim.volume {
            Some(volume) => {
                let (driver, handle) = self.volumes.get(volume)?.attached.as_ref()?;
                Some((driver, handle))
            }
            None => Some((&self.classes.get(&claim.class)?.provisioner, id)),
        }
    }
}

impl Volume {
    /// Whether its node affinity holds.
    pub(super) fn is_reached_from(&self, node: &Node) -> bool {
        let matches =
            |terms: &Vec<crate::need::NodeTerm>| terms.iter().any(|term| term.matches(&node.name, &node.facts.labels));
        self.nodes.as_ref().is_none_or(matches)
    }

    /// Whether a claim may be bound to it.
    pub(super) fn does_for(&self, id: &Arc<str>, claim: &Claim) -> bool {
        self.available
            && self.claim.as_deref().is_none_or(|owner| *owner == **id)
            && self.class == claim.class
            && self.block == claim.block
            && self.bytes >= claim.bytes
            && claim.modes.is_subset(&self.modes)
            && claim.selector.matches(&self.labels)
    }

    /// Whether the node is in the volume's zone and region. A node that is in none at all is not asked.
    fn is_in_zone_of(&self, node: &Node) -> bool {
        let labels = &node.facts.labels;
        if !ZONE_LABELS.iter().any(|(key, _)| labels.contains_key(*key)) {
            return true;
        }
        ZONE_LABELS.iter().all(|(key, newer)| {
            let Some(zones) = self.labels.get(*key) else { return true };
            let zone = labels.get(*key).or_else(|| labels.get(*newer));
            zone.is_some_and(|zone| zones.split(ZONE_SEPARATOR).any(|one| one == zone))
        })
    }
}
