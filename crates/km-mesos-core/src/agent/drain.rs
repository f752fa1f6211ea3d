//! Draining: the master wants the agent empty. All tasks are killed, new ones are refused, until nothing is left.

use std::time::Duration;

use km_mesos_proto::v1::{
    self, DrainConfig, KillPolicy, TaskState,
    framework_info::capability,
    task_status::{Reason, Source},
};
use serde::{Deserialize, Serialize};

use super::{Action, Agent, framework::record, paths};
use crate::link::codec;

/// What the agent was asked for, and when. A checkpoint, as a restarted agent goes on draining.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Draining {
    #[serde(with = "codec::proto")]
    config: DrainConfig,
    since: Duration,
}

impl Agent {
    /// What the agent is draining for and since when, while it does.
    pub fn draining(&self) -> Option<(&DrainConfig, Duration)> {
        self.draining.as_ref().map(|draining| (&draining.config, draining.since))
    }

    /// Begins, or begins again with another configuration.
    pub(super) fn drain(&mut self, config: DrainConfig) {
        let draining = Draining { config, since: self.now };
        self.act(Action::Write { path: paths::DRAINING.to_owned(), content: record(&draining) });
        self.draining = Some(draining);
        let kill_policy = config.max_grace_period.map(|grace| KillPolicy { grace_period: Some(grace) });
        let tasks: Vec<(String, String)> = self
            .frameworks
            .iter()
            .flat_map(|(framework, found)| found.tasks.keys().map(|task| (framework.clone(), task.clone())))
            .collect();
        for (framework, task) in tasks {
            self.kill_task(&framework, &task, kill_policy);
        }
    }

    /// It was the drain that killed a task, so its status says so.
    pub(super) fn colour_by_drain(&self, framework: &str, status: &mut v1::TaskStatus) {
        let Some(draining) = &self.draining else { return };
        if status.state() != TaskState::TaskKilled {
            return;
        }
        status.reason = Some(Reason::AgentDraining.into());
        let aware = self
            .frameworks
            .get(framework)
            .is_some_and(|framework| framework.is_capable(capability::Type::PartitionAware));
        if draining.config.mark_gone() && aware {
            status.state = TaskState::TaskGoneByOperator.into();
        }
    }

    /// A task that reaches a draining agent is not started.
    pub(super) fn refuse_while_draining(&mut self, framework_id: &str, executor_id: &str, tasks: &[String]) {
        let Some(state) = self.frameworks.get(framework_id).map(|framework| framework.dropped()) else { return };
        for task in tasks {
            let message = "Task ignored while draining";
            let status = self.status_from(Source::Agent, task, state, Some(Reason::AgentDraining), message);
            self.update(framework_id, executor_id, status);
        }
    }

    /// Nothing is left: the agent is as any other again, and its master keeps tasks away from it.
    pub(super) fn end_drain_when_nothing_is_left(&mut self) {
        if self.draining.is_some() && self.frameworks.is_empty() {
            self.draining = None;
            self.act(Action::Remove { path: paths::DRAINING.to_owned() });
        }
    }
}
