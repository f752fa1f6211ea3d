//! The taints by which a node says that its agent is away, to be emptied, or for special pods only.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use km_kube::keys;
use serde_json::json;

use super::{Action, Core, agents::Agent, effects::Then};

/// Kubernetes' own: the node's kubelet can't be reached. Pods stay for as long as they tolerate it.
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The upkeep of an agent that is none of those whose offers are asked for.
const EXCLUDED: &str = "excluded";
const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
    Taint { key: key.to_owned(), value: value.map(str::to_owned), effect: effect.to_owned(), time_added: None }
}

/// Whether a taint is ours to set and to remove; all others are the users'. `gpu` is what GPUs are called.
fn is_ours(taint: &Taint, gpu: &str) -> bool {
    match taint.key.as_str() {
        UNREACHABLE => matches!(taint.effect.as_str(), NO_EXECUTE | NO_SCHEDULE),
        key if key == gpu => taint.effect == NO_SCHEDULE && taint.value.as_deref() == Some("present"),
        key => key == keys::UPKEEP_TAINT,
    }
}

fn same(left: &Taint, right: &Taint) -> bool {
    left.key == right.key && left.value == right.value && left.effect == right.effect
}

impl Core {
    fn wanted_taints(&self, now: Duration, agent: &Agent) -> Vec<Taint> {
        let mut wanted = Vec::new();
        if agent.lost.is_some() {
            let since = agent.unreachable_since.unwrap_or_else(|| self.unix(now));
            let added = i64::try_from(since.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
            wanted.push(Taint { time_added: added.map(Time), ..taint(UNREACHABLE, None, NO_EXECUTE) });
            wanted.push(taint(UNREACHABLE, None, NO_SCHEDULE));
        }
        let upkeep = agent.upkeep.reason(self.unix(now), self.config.maintenance_lead);
        if let Some(reason) = upkeep.or_else(|| self.excludes(agent).then_some(EXCLUDED)) {
            wanted.push(taint(keys::UPKEEP_TAINT, Some(reason), NO_SCHEDULE));
        }
        if agent.has_gpus && self.config.taint_gpu_agents {
            // Pods without need for GPUs stay off.
            wanted.push(taint(&self.config.resource_names.gpus(), Some("present"), NO_SCHEDULE));
        }
        wanted
    }

    /// Brings our taints of an agent's node in line; the users' own stay.
    pub(super) fn ensure_taints(&mut self, now: Duration, id: &str, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get(id) else { return };
        if !self.synced || self.agents.on_host(&agent.hostname).is_none_or(|current| current.id != id) {
            return;
        }
        let Some(node) = self.nodes.get(&agent.hostname) else { return };
        let have = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let wanted = self.wanted_taints(now, agent);
        let gpu = self.config.resource_names.gpus();
        let is_right =
            have.iter().filter(|taint| is_ours(taint, &gpu)).all(|ours| wanted.iter().any(|one| same(one, ours)))
                && wanted.iter().all(|one| have.iter().any(|there| same(one, there)));
        if is_right {
            if agent.asked_taints.is_some()
                && let Some(agent) = self.agents.get_mut(id)
            {
                agent.asked_taints = None;
            }
            return;
        }
        let mut all: Vec<Taint> = have.iter().filter(|taint| !is_ours(taint, &gpu)).cloned().collect();
        // One that stays keeps the time at which it was added.
        all.extend(wanted.into_iter().map(|one| have.iter().find(|there| same(&one, there)).cloned().unwrap_or(one)));
        let name = agent.hostname.clone();
        // The list is written as a whole: only onto the version that it was made from.
        let version = node.metadata.resource_version.clone();
        let Some(agent) = self.agents.get_mut(id) else { return };
        if agent.asked_taints.as_ref() == Some(&all) {
            return;
        }
        let mut patch = json!({ "spec": { "taints": &all } });
        if let Some(version) = version {
            patch["metadata"] = json!({ "resourceVersion": version });
        }
        agent.asked_taints = Some(all);
        let then = Then::NodeWritten { agent_id: id.to_owned() };
        self.effects.start(then, out, |op| Action::PatchNode { op, name, patch, status: false });
    }
}
