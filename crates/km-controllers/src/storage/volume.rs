//! A volume's phases, and what becomes of it without its claim.

use super::{annotation, binding, is_deleting, key_at, reclaim, without_finalizer};
use crate::core::{Action, Key, Plan, Resource, World, text};
use jiff::Timestamp;
use km_kube::keys::{PROVISIONED_BY, VOLUME_PROTECTION};

/// `lost` is the uid of a claim of which the API server said that it is gone.
pub(crate) fn reconcile(world: &World, name: &str, lost: Option<&str>, now: Timestamp) -> Plan {
    let Some(volume) = world.get(&Resource::volumes(), &Key::new("", name)) else { return Plan::default() };
    // A bound one stays.
    if is_deleting(volume) && text(volume, "/status/phase") != "Bound" {
        return Plan::new(without_finalizer(Resource::volumes(), volume, VOLUME_PROTECTION).into_iter().collect());
    }
    let uid = text(volume, "/spec/claimRef/uid");
    // Free, or reserved by hand for a claim that hasn't come.
    if uid.is_empty() {
        return phase(binding::volume_phase(volume, "Available", None, now));
    }
    let key = key_at(volume, "/spec/claimRef");
    let claim = world.get(&Resource::claims(), &key).filter(|claim| text(claim, "/metadata/uid") == uid);
    let Some(claim) = claim else {
        if lost == Some(uid) {
            return Plan::new(reclaim::released(volume, now));
        }
        // This watch may be behind the one of who reserved it.
        let Key { namespace, name } = key;
        return Plan::new(vec![Action::Get { resource: Resource::claims(), namespace, name, uid: uid.to_owned() }]);
    };
    match text(claim, "/spec/volumeName") {
        // The claim's own run goes on with it.
        "" => Plan::default(),
        chosen if chosen == name => phase(binding::volume_phase(volume, "Bound", None, now)),
        // A provisioner made it for a claim that took another one.
        _ if !annotation(volume, PROVISIONED_BY).is_empty() && reclaim::is_to_be_deleted(volume) => {
            Plan::new(reclaim::released(volume, now))
        }
        _ => Plan::new(vec![binding::unbind(volume)]),
    }
}

fn phase(action: Option<Action>) -> Plan {
    Plan::new(action.into_iter().collect())
}
