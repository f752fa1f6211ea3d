//! What was asked of Mesos and what became of its offers, for people: `km offers` and `km explain`.

mod roles;

use std::{collections::BTreeMap, time::Duration};

use km_kube::quantity::Quantity;
use km_mesos_proto::v1;
use km_offers::DeclineReason;
use km_placement::{Explanation, PendingPod};
use km_podtask::PodKey;
use serde::Serialize;

use super::{Core, pods::uid};
pub use roles::RoleLine;

/// The last DECLINE of each agent's offers.
#[derive(Default)]
pub(super) struct Declines(BTreeMap<String, Declined>);

struct Declined {
    hostname: String,
    offer: String,
    at: Duration,
    reason: DeclineReason,
    until: Duration,
}

impl Declines {
    pub fn note(&mut self, offer: &v1::Offer, at: Duration, reason: DeclineReason, refuse: Duration) {
        let declined = Declined {
            hostname: offer.hostname.clone(),
            offer: offer.id.value.clone(),
            at,
            reason,
            until: at.saturating_add(refuse),
        };
        self.0.insert(offer.agent_id.value.clone(), declined);
    }

    /// The agent makes offers again, or is gone.
    pub fn forget(&mut self, agent: &str) {
        self.0.remove(agent);
    }

    /// The connection ended, and the filters with it.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// The answer of `/debug/inspect/offers`.
#[derive(Clone, Debug, Serialize)]
pub struct OffersPage {
    pub held: Vec<HeldLine>,
    pub declined: Vec<DeclinedLine>,
    pub asked: Asked,
}

/// An offer that is held.
#[derive(Clone, Debug, Serialize)]
pub struct HeldLine {
    pub id: String,
    pub hostname: String,
    pub age_ms: u64,
    pub resources: String,
}

/// The last offer of an agent that has none here, and why it went back.
#[derive(Clone, Debug, Serialize)]
pub struct DeclinedLine {
    pub id: String,
    pub hostname: String,
    pub age_ms: u64,
    pub reason: &'static str,
    /// When Mesos offers the same again by itself.
    pub again_ms: u64,
}

/// What the scheduler wants of Mesos.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    pub suppressed: bool,
    /// Role by role.
    pub roles: Vec<RoleLine>,
    /// Whether the master knows which agents' offers are wanted; else those of others are declined.
    pub told: bool,
    /// Why the master refused the last change of the framework.
    pub refused: Option<String>,
    /// Since the last REVIVE.
    pub revived_ms: Option<u64>,
    pub held: usize,
    /// Since when a pod waits; the longest one, or the one that is asked about.
    pub waits_ms: Option<u64>,
    /// When it asks for offers again, if it fits none of those it saw.
    pub retry_ms: Option<u64>,
}

/// The answer of `/debug/explain`.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainPage {
    pub pod: String,
    pub state: String,
    pub message: Option<String>,
    /// Each agent's word about a pod that waits.
    pub agents: Vec<AgentLine>,
    pub asked: Option<Asked>,
}

/// What one agent says to a pod.
#[derive(Clone, Debug, Serialize)]
pub struct AgentLine {
    pub host: String,
    pub why: String,
    /// Resources that are missing, and how much.
    pub lacking: String,
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Core {
    pub fn offers_page(&self, now: Duration) -> OffersPage {
        let held = self.pool.iter().map(|held| HeldLine {
            id: held.offer.id.value.clone(),
            hostname: held.offer.hostname.clone(),
            age_ms: milliseconds(now.saturating_sub(held.since)),
            resources: resources(&held.offer.resources),
        });
        let declined = self.declines.0.values().filter(|declined| declined.until > now).map(|declined| DeclinedLine {
            id: declined.offer.clone(),
            hostname: declined.hostname.clone(),
            age_ms: milliseconds(now.saturating_sub(declined.at)),
            reason: declined.reason.as_str(),
            again_ms: milliseconds(declined.until - now),
        });
        let longest = self.queue.iter().map(|(_, waiting)| waiting.since).min();
        OffersPage { held: held.collect(), declined: declined.collect(), asked: self.asked(now, longest, None) }
    }

    fn asked(&self, now: Duration, since: Option<Duration>, retry: Option<Duration>) -> Asked {
        Asked {
            suppressed: self.demand.is_suppressed(),
            roles: roles::lines(&self.config.framework),
            told: self.standing.updates,
            refused: self.standing.refusal.clone(),
            revived_ms: self.demand.revived.map(|revived| milliseconds(now.saturating_sub(revived))),
            held: self.pool.len(),
            waits_ms: since.map(|since| milliseconds(now.saturating_sub(since))),
            retry_ms: retry.map(|retry| milliseconds(retry.saturating_sub(now))),
        }
    }

    fn explain_agents(&mut self, pending: &PendingPod) -> Vec<AgentLine> {
        self.feed_engine();
        let line = |one: Explanation| AgentLine {
            host: one.node,
            why: one.refusal.map_or_else(|| "fits".to_owned(), |refusal| refusal.texts().join(", ")),
            lacking: one.lacking.iter().map(lacks).collect::<Vec<_>>().join(", "),
        };
        self.feed.engine.explain(pending).into_iter().map(line).collect()
    }

    /// None when there is no such pod.
    pub fn explain_page(&mut self, now: Duration, key: &PodKey) -> Option<ExplainPage> {
        let pod = self.pods.get(key)?.clone();
        let page =
            |state: String| ExplainPage { pod: key.to_string(), state, message: None, agents: Vec::new(), asked: None };
        if let Some(waiting) = self.queue.get(key).cloned() {
            let state = match &waiting.nominated {
                _ if waiting.not_before > now => "waits after a launch that failed".to_owned(),
                Some(node) if waiting.binding => format!("waits until its persistent volumes are bound for {node}"),
                _ => "waits for a place".to_owned(),
            };
            return Some(ExplainPage {
                agents: self.explain_agents(&waiting.pending),
                message: waiting.reported,
                asked: Some(self.asked(now, Some(waiting.since), waiting.retry)),
                ..page(state)
            });
        }
        let task = self.tasks.of_pod(key).filter(|task| task.pod_uid == uid(&pod));
        Some(page(match task {
            Some(task) if task.flags.unreachable => format!("on {}, which is unreachable", task.hostname),
            Some(task) if task.flags.deleted => format!("is being ended on {}", task.hostname),
            Some(task) if task.flags.bound => format!("runs on {} as task {}", task.hostname, task.id),
            Some(task) => format!("is being launched on {} as task {}", task.hostname, task.id),
            None if self.queue.held.contains_key(key) => format!("may not wait: {}", self.queue.held[key]),
            None => why_not_ours(&pod, &self.config.scheduler_names),
        }))
    }
}

/// Why a pod neither waits nor has a task.
fn why_not_ours(pod: &k8s_openapi::api::core::v1::Pod, names: &[String]) -> String {
    let spec = pod.spec.clone().unwrap_or_default();
    let name = spec.scheduler_name.unwrap_or_default();
    match () {
        () if km_kube::pod::is_terminal(pod) => format!("has ended ({})", km_kube::pod::phase(pod)),
        () if km_kube::pod::is_mirror(pod) => "is a static pod of its node".to_owned(),
        () if !name.is_empty() && !names.contains(&name) => format!("is left to the scheduler {name}"),
        () if km_kube::pod::is_deleting(pod) => "is being deleted".to_owned(),
        () => match spec.scheduling_gates.into_iter().flatten().map(|gate| gate.name).collect::<Vec<_>>() {
            gates if gates.is_empty() => "is not for this scheduler to place".to_owned(),
            gates => format!("waits for its scheduling gates: {}", gates.join(", ")),
        },
    }
}

/// A missing amount in Kubernetes' units.
fn lacks((name, amount): &(String, i64)) -> String {
    let quantity = match name.as_str() {
        "cpu" => Quantity::from_milli(*amount).to_string(),
        "memory" | "ephemeral-storage" => Quantity::from_bytes(*amount).to_string(),
        _ => amount.to_string(),
    };
    format!("{name} {quantity}")
}

/// As Mesos writes resources: `cpus:4; mem:1024; ports:[31000-31009]`.
fn resources(all: &[v1::Resource]) -> String {
    let text = |one: &v1::Resource| match (&one.scalar, &one.ranges) {
        (Some(scalar), _) => format!("{}:{}", one.name, scalar.value),
        (None, Some(ranges)) => {
            let ranges = ranges.range.iter().map(|range| format!("{}-{}", range.begin, range.end));
            format!("{}:[{}]", one.name, ranges.collect::<Vec<_>>().join(","))
        }
        (None, None) => one.name.clone(),
    };
    all.iter().map(text).collect::<Vec<_>>().join("; ")
}
