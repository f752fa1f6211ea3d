//! Agents that drain longer than their master does. Once the tasks of an agent have ended, its master calls it drained and
//! may be told to use it again; but the agent itself refuses tasks as draining until its last executor has ended, of
//! whichever framework. Ours is asked to end there, and nothing is launched until it has, or for a pause.

use std::time::Duration;

use km_mesos_proto::v1::{TaskState, TaskStatus, task_status::Reason};

use super::Core;

/// How long such an agent is left alone: nobody says when the executors of others have ended.
const PAUSE: Duration = Duration::from_secs(30);

impl Core {
    /// Whether the agent refused a launch a moment ago, since it drains.
    pub(super) fn is_still_draining(&self, agent: &String) -> bool {
        self.still_draining.get(agent).is_some()
    }

    /// Takes note if a task was not even started, since its agent drains.
    pub(super) fn note_refused_launch(&mut self, now: Duration, status: &TaskStatus, state: TaskState, agent: &String) {
        let dropped = matches!(state, TaskState::TaskDropped | TaskState::TaskLost);
        if dropped && status.reason == Some(Reason::AgentDraining.into()) && self.agents.get(agent).is_some() {
            tracing::warn!(agent, "the agent refuses tasks, as it is still draining");
            self.still_draining.set(agent, Some(now + PAUSE));
            self.agents.touch(agent);
        }
    }

    /// Agents are tried again that were left alone for long enough.
    pub(super) fn end_pauses_of_draining(&mut self, now: Duration) {
        if self.still_draining.first().is_some_and(|first| first <= now) {
            self.still_draining.due(now).iter().for_each(|agent| self.may_drain_no_more(agent));
            self.queue.stir(now);
            self.demand.touch(now);
        }
    }

    /// The agent's executor has ended, or the agent is gone, or it is time to try it again.
    pub(super) fn may_drain_no_more(&mut self, agent: &String) {
        self.still_draining.set(agent, None);
        self.agents.touch(agent);
    }
}
