//! Which volumes the open claims of a pod get on a node.

use std::{collections::BTreeSet, sync::Arc};

use super::{Claim, NO_PROVISIONER, Storage, Volume};
use crate::{fit::Node, need::Need};

/// How an open claim of a pod comes to a volume, once the pod's node is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// By namespace and name.
    pub claim: String,
    pub way: Way,
    /// It was begun already.
    pub begun: bool,
}

/// What is to be done for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// This volume is reserved for it.
    Reserve(String),
    /// The provisioner of its class makes one that the node reaches.
    Provision,
}

impl Storage {
    /// What the claims of a pod need that aren't bound yet; none when they can't be bound on the node.
    pub(crate) fn bindings(&self, node: &Node, need: &Need) -> Option<Vec<Binding>> {
        self.usable(need).ok()?;
        let claims = need.claims.iter().filter_map(|id| Some((id, self.claims.get(&**id)?)));
        self.choose(node, claims.filter(|(_, claim)| claim.volume.is_none()).collect())
    }

    /// A free volume on the node of its own for each open claim, or one that can be made there. The smallest claim chooses
    /// first, and takes the smallest volume that will do; one that is reserved for it is the only one that it takes.
    pub(super) fn choose(&self, node: &Node, mut open: Vec<(&Arc<str>, &Claim)>) -> Option<Vec<Binding>> {
        open.sort_by_key(|(_, claim)| claim.bytes);
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let mut bindings = Vec::with_capacity(open.len());
        for (id, claim) in open {
            let found = self.volume_for(node, id, claim, &used);
            let (way, begun) = match (found, &claim.selected) {
                (Some((name, volume)), _) if volume.claim.is_some() || claim.selected.is_none() => {
                    used.insert(name);
                    (Way::Reserve(name.to_owned()), volume.claim.is_some())
                }
                (_, Some(selected)) if *selected == node.name => (Way::Provision, true),
                (_, None) if self.can_make(node, claim) && !self.is_reserved(id, claim) => (Way::Provision, false),
                _ => return None,
            };
            bindings.push(Binding { claim: id.to_string(), way, begun });
        }
        Some(bindings)
    }

    fn volume_for<'a>(
        &'a self,
        node: &Node,
        id: &Arc<str>,
        claim: &Claim,
        used: &BTreeSet<&str>,
    ) -> Option<(&'a str, &'a Volume)> {
        let mine = self.volumes.iter().filter(|(_, volume)| volume.does_for(id, claim));
        // One that waits for this very claim goes first.
        let best = mine.filter(|(name, volume)| {
            !used.contains(name.as_str()) && (volume.claim.is_some() || volume.is_reached_from(node))
        });
        let (name, volume) = best.min_by_key(|(_, volume)| (volume.claim.is_none(), volume.bytes))?;
        volume.is_reached_from(node).then_some((name.as_str(), volume))
    }

    fn is_reserved(&self, id: &Arc<str>, claim: &Claim) -> bool {
        self.volumes.values().any(|volume| volume.claim.is_some() && volume.does_for(id, claim))
    }

    fn can_make(&self, node: &Node, claim: &Claim) -> bool {
        let Some(class) = self.classes.get(&claim.class) else { return false };
        let there = class.topologies.is_empty()
            || class.topologies.iter().any(|all| all.iter().all(|one| one.matches(&node.facts.labels)));
        class.provisioner != NO_PROVISIONER && there
    }
}
