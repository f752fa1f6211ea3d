//! A restarted agent: what an earlier one left behind, and what becomes of its executors.
//!
//! Executors of checkpointed frameworks go on without an agent and subscribe again; those that don't within
//! `executor_reregistration_timeout` are ended, and their tasks are lost. Only then does the agent register.

use km_mesos_proto::v1::{self, task_status::Reason};
use serde::de::DeserializeOwned;

use super::{
    Action, Agent, Owner, Phase,
    drain::Draining,
    environment::duration_text,
    executor::{Executor, Kind, State, Verdict},
    framework::Framework,
    master_link::{AgentRecord, ResourcesRecord},
    operations::Ended,
    paths,
    reconfiguration::{self, Reconfiguration},
    task::Task,
    timers::Timer,
};

/// A checkpoint that cannot be read. Writes are atomic, so the disk, or somebody, damaged it.
#[derive(Debug, thiserror::Error)]
#[error("checkpoint {path} is damaged: {source}; remove the checkpoint directory to start as a new agent")]
pub struct RecoveryError {
    path: String,
    source: serde_json::Error,
}

/// What the checkpoint directory held.
#[derive(Debug, Default)]
pub struct Recovered {
    info: Option<v1::AgentInfo>,
    resources: Option<Vec<v1::Resource>>,
    draining: Option<Draining>,
    frameworks: Vec<Framework>,
    executors: Vec<Executor>,
    tasks: Vec<(String, Task)>,
    operations: Vec<Ended>,
}

impl Recovered {
    /// Reads all files below the checkpoint directory, given as path (relative to it) and content.
    pub fn read(files: &[(String, Vec<u8>)]) -> Result<Self, RecoveryError> {
        let mut recovered = Self::default();
        for (path, content) in files {
            let parts: Vec<&str> = path.split('/').collect();
            match parts.as_slice() {
                [paths::AGENT] => recovered.info = Some(parse::<AgentRecord>(path, content)?.info),
                [paths::RESOURCES] => recovered.resources = Some(parse::<ResourcesRecord>(path, content)?.resources),
                [paths::DRAINING] => recovered.draining = Some(parse(path, content)?),
                [paths::OPERATIONS, _] => recovered.operations.push(parse(path, content)?),
                ["frameworks", _, "info"] => recovered.frameworks.push(parse(path, content)?),
                ["frameworks", _, "executors", _, "info"] => recovered.executors.push(parse(path, content)?),
                ["frameworks", directory, "tasks", _, "info"] => {
                    recovered.tasks.push(((*directory).to_owned(), parse(path, content)?));
                }
                // Half-written files of a crash.
                _ => {}
            }
        }
        Ok(recovered)
    }

    /// Brings what was left behind in line with what the flags say now.
    ///
    /// # Errors
    /// The agent can't go on as the one that it was; the text says why.
    pub fn reconfigured(mut self, info: &v1::AgentInfo, policy: Reconfiguration) -> Result<Self, String> {
        if let Some(old) = &self.info {
            reconfiguration::check(old, info, policy)?;
        }
        if let Some(shaped) = &self.resources {
            self.resources = Some(reconfiguration::reshape(shaped, &info.resources)?);
        }
        Ok(self)
    }

    /// The containers that should be running.
    pub fn containers(&self) -> Vec<String> {
        let custom = self.executors.iter().filter(|executor| executor.kind == Kind::Custom);
        let mut containers: Vec<String> = custom.map(|executor| executor.container.clone()).collect();
        let processes = self.tasks.iter().filter_map(|(_, task)| task.process.as_ref());
        containers.extend(processes.map(|process| process.container.clone()));
        containers
    }
}

fn parse<T: DeserializeOwned>(path: &str, content: &[u8]) -> Result<T, RecoveryError> {
    serde_json::from_slice(content).map_err(|source| RecoveryError { path: path.to_owned(), source })
}

impl Agent {
    pub(super) fn adopt(&mut self, recovered: Recovered) {
        if let Some(old) = recovered.info {
            self.info.id.clone_from(&old.id);
            self.changed = old != self.info;
        }
        self.draining = recovered.draining;
        if let Some(resources) = recovered.resources {
            self.resources = resources;
        }
        self.operations = recovered.operations.into_iter().map(|ended| (ended.key(), ended)).collect();
        for framework in recovered.frameworks {
            self.frameworks.insert(framework.id().value, framework);
        }
        for executor in recovered.executors {
            let Some(id) = executor.info.framework_id.as_ref().map(|id| id.value.clone()) else { continue };
            self.adopt_executor(&id, executor);
        }
        let directories: Vec<(String, String)> =
            self.frameworks.keys().map(|id| (paths::path_component(id), id.clone())).collect();
        for (directory, task) in recovered.tasks {
            if let Some((_, id)) = directories.iter().find(|(name, _)| *name == directory) {
                self.adopt_task(id, task);
            }
        }
    }

    fn adopt_executor(&mut self, framework_id: &str, executor: Executor) {
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let id = executor.info.executor_id.value.clone();
        if executor.kind == Kind::Custom {
            let owner = Owner { framework: framework_id.to_owned(), executor: id.clone(), task: None };
            self.containers.insert(executor.container.clone(), owner);
        }
        framework.executors.insert(id, Executor { launched: true, ..executor });
    }

    fn adopt_task(&mut self, framework_id: &str, task: Task) {
        let Some(framework) = self.frameworks.get_mut(framework_id) else { return };
        let id = task.info.task_id.value.clone();
        if let Some(process) = task.process.as_ref().filter(|_| framework.executors.contains_key(&task.executor_id)) {
            let executor = task.executor_id.clone();
            let owner = Owner { framework: framework_id.to_owned(), executor, task: Some(id.clone()) };
            self.containers.insert(process.container.clone(), owner);
        }
        let spoke = task.updates.has_word_of_executor();
        if let Some(executor) = framework.executors.get_mut(&task.executor_id).filter(|_| spoke) {
            executor.had_work = true;
        }
        let statuses = task.updates.history().map(|status| v1::TaskStatus { data: None, ..status.clone() }).collect();
        framework.tasks.insert(id, Task { delivered: true, statuses, ..task });
    }

    pub(super) fn start(&mut self) {
        if self.phase != Phase::Recovering {
            return;
        }
        self.restore_volumes();
        if std::mem::take(&mut self.changed) {
            self.save_agent();
        }
        for framework in self.frameworks.keys().cloned().collect::<Vec<_>>() {
            self.resume_framework(&framework);
        }
        if self.unsubscribed().is_empty() {
            self.end_recovery();
        } else {
            self.timers.set(Timer::RecoveryEnd, self.now + self.config.executor_reregistration_timeout);
        }
    }

    fn resume_framework(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get(id) else { return };
        if framework.terminating {
            self.shutdown_framework(id);
            return;
        }
        let built_in = |task: &&Task| task.process.is_some() && !task.is_terminal();
        let tasks: Vec<String> =
            framework.tasks.values().filter(built_in).map(|task| task.info.task_id.value.clone()).collect();
        for task in tasks {
            self.built_in_started(id, &task, None);
            self.resume_ending(id, &task);
        }
        self.forget_executors_without_process(id);
        self.forget_framework_when_done(id);
    }

    /// A built-in executor whose agent stopped between writing it down and starting its process. Its tasks were never
    /// started.
    fn forget_executors_without_process(&mut self, framework_id: &str) {
        let Some(framework) = self.frameworks.get(framework_id) else { return };
        let has_process = |id: &String| {
            self.containers.values().any(|owner| owner.framework == framework_id && owner.executor == *id)
        };
        let built_in = framework.executors.iter().filter(|(_, executor)| executor.is_built_in());
        let orphans: Vec<String> = built_in.map(|(id, _)| id.clone()).filter(|id| !has_process(id)).collect();
        for executor in orphans {
            let tasks = self.live_tasks(framework_id, &executor);
            self.drop_tasks(framework_id, &executor, &tasks, "Task launched during agent restart");
            self.remove_executor(framework_id, &executor, None);
        }
    }

    /// The executors that are expected to subscribe.
    pub(super) fn unsubscribed(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (framework_id, framework) in &self.frameworks {
            let silent = framework.executors.iter().filter(|(_, executor)| executor.state == State::Registering);
            let custom = silent.filter(|(_, executor)| !executor.is_built_in());
            found.extend(custom.map(|(id, _)| (framework_id.clone(), id.clone())));
        }
        found
    }

    pub(super) fn end_recovery(&mut self) {
        if self.phase != Phase::Recovering {
            return;
        }
        self.timers.cancel(&Timer::RecoveryEnd);
        let message = format!(
            "Executor did not re-register within {}",
            duration_text(self.config.executor_reregistration_timeout)
        );
        for (framework_id, executor_id) in self.unsubscribed() {
            let Some(state) = self.frameworks.get(&framework_id).map(Framework::gone) else { continue };
            let Some(executor) = self.executor_mut(&framework_id, &executor_id) else { continue };
            executor.state = State::Terminating;
            let reason = Reason::ExecutorReregistrationTimeout;
            executor.verdict = Some(Verdict { state, reason, message: message.clone() });
            let container = executor.container.clone();
            self.act(Action::Destroy { container });
        }
        self.phase = Phase::Running;
        self.connect();
    }
}
