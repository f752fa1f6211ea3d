//! Nodes' extended resources: those of their agents, in the nodes' status beside what the executors say.

use std::collections::BTreeMap;

use km_kube::{pod, quantity::Quantity};
use serde_json::{Value, json};

use super::{Action, Core, agents::Agent, effects::Then};

impl Core {
    /// Brings capacity and allocatable of an agent's node in line, as far as extended resources go.
    pub(super) fn ensure_extended(&mut self, id: &str, out: &mut Vec<Action>) {
        let patch = self.agents.get(id).and_then(|agent| self.extended_patch(agent));
        if self.agents.get(id).is_none_or(|agent| agent.asked_extended == patch) {
            return;
        }
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.asked_extended.clone_from(&patch);
        let Some(patch) = patch else { return };
        let name = agent.hostname.clone();
        let then = Then::NodeWritten { agent_id: id.to_owned() };
        self.effects.start(then, out, |op| Action::PatchNode { op, name, patch, status: true });
    }

    /// The merge patch that the node needs, if any. Only when the master listed all that the agent has, what the node has
    /// besides is known to be gone.
    fn extended_patch(&self, agent: &Agent) -> Option<Value> {
        let status = self.nodes.get(&agent.hostname)?.status.as_ref();
        let empty = BTreeMap::new();
        let mut patch = BTreeMap::new();
        for (field, have) in [
            ("capacity", status.and_then(|status| status.capacity.as_ref())),
            ("allocatable", status.and_then(|status| status.allocatable.as_ref())),
        ] {
            let have = have.unwrap_or(&empty);
            let mut changes: BTreeMap<&str, Option<String>> = BTreeMap::new();
            for (name, amount) in agent.capacity.other.iter().filter(|(name, _)| pod::is_extended(name)) {
                let known = have.get(name).and_then(|known| Quantity::try_from(known).ok());
                if known.is_none_or(|known| known.value() != *amount) {
                    changes.insert(name, Some(Quantity::from_value(*amount).to_string()));
                }
            }
            let gone = |name: &&String| pod::is_extended(name) && !agent.capacity.other.contains_key(*name);
            let gone = have.keys().filter(|_| agent.wholly_known).filter(gone);
            changes.extend(gone.map(|name| (name.as_str(), None)));
            if !changes.is_empty() {
                patch.insert(field, changes);
            }
        }
        (!patch.is_empty()).then(|| json!({ "status": patch }))
    }
}
