//! What can be looked at from outside.

use std::time::Duration;

use super::Core;

/// A task, for `/debug/registry/tasks` and `km tasks`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TaskLine {
    pub id: String,
    pub pod: String,
    /// 0 pending, 1 running, 2 finished.
    pub state: u8,
    pub offer: String,
    pub agent: String,
    pub hostname: String,
    pub unreachable: bool,
}

/// A waiting pod, for `/debug/scheduler/podqueue`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct QueueLine {
    pub pod: String,
    pub waits_ms: u128,
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

impl Core {
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
                state: task.state as u8,
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
