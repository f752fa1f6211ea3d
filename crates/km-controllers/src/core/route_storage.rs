//! Which tasks an event about a volume, a claim or a storage class concerns.

use super::value::key_of;
use super::{Key, Manager, Resource, Task, text};
use serde_json::Value;

impl Manager {
    /// Claims that a volume is or was for, and those that might take it. Costs a look at every claim.
    pub(super) fn claims_of<'a>(&self, states: impl Iterator<Item = &'a Value>) -> Vec<Task> {
        let mut tasks = Vec::new();
        for volume in states {
            let name = text(volume, "/metadata/name");
            let reserved = Key::new(text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
            let class = text(volume, "/spec/storageClassName");
            for claim in self.world.all(&Resource::claims()) {
                let key = key_of(claim);
                let waits = is_unbound(claim) && text(claim, "/spec/storageClassName") == class;
                if text(claim, "/spec/volumeName") == name || key == reserved || (reserved.name.is_empty() && waits) {
                    tasks.push(Task::Claim(key));
                }
            }
        }
        tasks
    }

    /// The claim itself, and the volumes that it names or that are reserved for it. Costs a look at every volume.
    pub(super) fn volumes_of<'a>(&self, claim: Key, states: impl Iterator<Item = &'a Value>) -> Vec<Task> {
        let named = states.map(|claim| text(claim, "/spec/volumeName")).filter(|name| !name.is_empty());
        let mut tasks: Vec<Task> = named.map(|name| Task::Volume(name.to_owned())).collect();
        for volume in self.world.all(&Resource::volumes()) {
            let reference = &volume["spec"]["claimRef"];
            if reference["name"] == claim.name.as_str() && reference["namespace"] == claim.namespace.as_str() {
                tasks.push(Task::Volume(text(volume, "/metadata/name").to_owned()));
            }
        }
        tasks.push(Task::Claim(claim));
        tasks
    }

    /// The claims that a change of this class may help: those of the class, and those of none.
    pub(super) fn unbound_claims(&self, class: &str) -> Vec<Task> {
        let claims = self.world.all(&Resource::claims()).filter(|claim| {
            let own = claim["spec"].get("storageClassName").and_then(Value::as_str);
            is_unbound(claim) && own.is_none_or(|own| own == class)
        });
        claims.map(|claim| Task::Claim(key_of(claim))).collect()
    }
}

fn is_unbound(claim: &Value) -> bool {
    text(claim, "/spec/volumeName").is_empty()
}
