//! The end of a framework on this agent, and of the agent itself.

use super::{Action, Agent, Phase, paths, timers::Timer};
use crate::link::AgentMessage;

impl Agent {
    /// Ends all of a framework's executors. Nobody is left to hear of its tasks.
    pub(super) fn shutdown_framework(&mut self, framework_id: &str) {
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        framework.terminating = true;
        let executors: Vec<String> = framework.executors.keys().cloned().collect();
        self.save_framework(framework_id);
        self.drop_updates(framework_id);
        for executor in executors {
            self.shutdown_executor(framework_id, &executor);
        }
        self.forget_framework_when_done(framework_id);
    }

    /// The agent goes for good: by wish, or because the master wants no more of it.
    pub(super) fn leave(&mut self, unregister: bool) {
        if matches!(self.phase, Phase::Leaving { .. }) {
            return;
        }
        self.phase = Phase::Leaving { unregister };
        self.timers.cancel(&Timer::RecoveryEnd);
        let frameworks: Vec<String> = self.frameworks.keys().cloned().collect();
        for framework in frameworks {
            self.shutdown_framework(&framework);
        }
    }

    pub(super) fn end_when_nothing_is_left(&mut self) {
        let Phase::Leaving { unregister } = self.phase else { return };
        if !self.frameworks.is_empty() || !self.containers.is_empty() {
            return;
        }
        let reason = if unregister {
            self.send(AgentMessage::Unregister);
            "the agent was asked to end"
        } else {
            "the master refuses this agent"
        };
        self.phase = Phase::Ended;
        if unregister {
            // The id was given up, so a next start must not come back with it.
            self.act(Action::Remove { path: String::new() });
        } else {
            // The id stays: one that was given up for ever is refused again, as by Apache Mesos (M257).
            for path in [paths::FRAMEWORKS, paths::RESOURCES, paths::DRAINING] {
                self.act(Action::Remove { path: path.to_owned() });
            }
        }
        self.act(Action::End { reason: reason.to_owned() });
    }
}
