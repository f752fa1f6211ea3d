//! What can be looked at from outside.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use km_podtask::State;

use super::{Core, reconcile::Tallies};

/// A task, for `/debug/registry/tasks` and `km tasks`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TaskLine {
    pub id: String,
    pub pod: String,
    #[serde(serialize_with = "state_name")]
    pub state: State,
    pub offer: String,
    pub agent: String,
    pub hostname: String,
    pub unreachable: bool,
}

fn state_name<S: serde::Serializer>(state: &State, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match state {
        State::Pending => "pending",
        State::Running => "running",
        State::Finished => "finished",
    })
}

/// A waiting pod, for `/debug/scheduler/podqueue`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct QueueLine {
    pub pod: String,
    pub waits_ms: u128,
    /// Until it is tried again, when it doesn't simply wait for an offer; and how long it pauses after a failure.
    pub next_ms: Option<u128>,
    pub pause_ms: u128,
    /// Why it fits nowhere, if that was found out.
    pub reason: Option<String>,
}

/// A held offer, for `km offers`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct OfferLine {
    pub id: String,
    pub hostname: String,
    pub age_ms: u128,
}

/// A pod of the API server, for `/debug/scheduler/podstore`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PodLine {
    pub pod: String,
    pub uid: String,
    pub node: Option<String>,
    pub phase: String,
}

/// How many pods wait for what, and how much is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Placed with the next offers.
    pub active: usize,
    /// After a failed launch.
    pub backoff: usize,
    /// Fit nowhere when last tried.
    pub unschedulable: usize,
    /// Not to be scheduled yet.
    pub gated: usize,
    pub nodes: usize,
    pub pods: usize,
    /// Launched, and not bound yet.
    pub assumed: usize,
}

/// When a waiting pod is tried next, if that is a question of time.
fn next_try(waiting: &super::waiting::Waiting, now: Duration) -> Option<Duration> {
    waiting.retry.or(Some(waiting.not_before).filter(|start| *start > now))
}

impl Core {
    pub fn waiting(&self, now: Duration) -> Waiting {
        let mut count = Waiting { nodes: self.nodes.len(), pods: self.pods.len(), ..Waiting::default() };
        for (_, pod) in self.queue.iter() {
            match () {
                () if pod.not_before > now => count.backoff += 1,
                () if pod.retry.is_some() => count.unschedulable += 1,
                () => count.active += 1,
            }
        }
        let gates = |pod: &Pod| {
            pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
        };
        count.gated = self.pods.values().filter(|pod| gates(pod)).count();
        count.assumed = self.tasks.live().filter(|task| task.flags.launched && !task.flags.bound).count();
        count
    }

    /// Reconciliations since the start.
    pub fn tallies(&self) -> Tallies {
        self.reconciler.tallies
    }

    /// Agents with the executors that their nodes name.
    pub fn executor_ids(&self) -> Vec<(String, String)> {
        self.agents.executors(&self.nodes)
    }

    pub fn pod_lines(&self) -> Vec<PodLine> {
        self.pods
            .iter()
            .map(|(key, pod)| PodLine {
                pod: key.to_string(),
                uid: pod.metadata.uid.clone().unwrap_or_default(),
                node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty()),
                phase: km_kube::pod::phase(pod).to_owned(),
            })
            .collect()
    }

    pub fn is_subscribed(&self) -> bool {
        self.subscribed.is_some()
    }

    pub fn is_synced(&self) -> bool {
        self.synced
    }

    pub fn task_lines(&self) -> Vec<TaskLine> {
        self.tasks
            .iter()
            .map(|task| TaskLine {
                id: task.id.clone(),
                pod: task.pod.to_string(),
                state: task.state,
                offer: task.offer_id.clone(),
                agent: task.agent_id.clone(),
                hostname: task.hostname.clone(),
                unreachable: task.flags.unreachable,
            })
            .collect()
    }

    pub fn queue_lines(&self, now: Duration) -> Vec<QueueLine> {
        self.queue
            .iter()
            .map(|(key, waiting)| QueueLine {
                pod: key.to_string(),
                waits_ms: now.saturating_sub(waiting.since).as_millis(),
                next_ms: next_try(waiting, now).map(|next| next.saturating_sub(now).as_millis()),
                pause_ms: waiting.pause.as_millis(),
                reason: waiting.reported.clone(),
            })
            .collect()
    }

    pub fn offer_lines(&self, now: Duration) -> Vec<OfferLine> {
        self.pool
            .iter()
            .map(|held| OfferLine {
                id: held.offer.id.value.clone(),
                hostname: held.offer.hostname.clone(),
                age_ms: now.saturating_sub(held.since).as_millis(),
            })
            .collect()
    }
}
