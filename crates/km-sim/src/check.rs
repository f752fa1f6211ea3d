//! The invariants, checked while the cluster runs and when it is quiet.

use std::{collections::BTreeMap, fmt, time::Duration};

use km_kube::pod::{is_terminal, phase};
use km_podtask::PodKey;

use crate::{
    api::{node_of, task_of, uid_of},
    world::World,
};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub seed: u64,
    /// Virtual time since the start.
    pub at: Duration,
    pub message: String,
    /// What happened last, the newest at the end.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(out, "{line}")?;
        }
        write!(out, "seed {} at {:?}: {}", self.seed, self.at, self.message)
    }
}

impl std::error::Error for Violation {}

impl World {
    pub(crate) fn violated<T>(&self, message: impl Into<String>) -> Result<T, Violation> {
        let trace = self.trace.iter().cloned().collect();
        Err(Violation { seed: self.seed, at: self.elapsed(), message: message.into(), trace })
    }

    /// Invariant 3: a pod runs once. Invariant 2: no agent gives more than it has.
    pub(crate) fn check_runs(&self) -> Result<(), Violation> {
        let mut running: BTreeMap<String, &str> = BTreeMap::new();
        for agent in &self.agents {
            let mut milli_cpu = 0;
            for executor in agent.executors.values() {
                for (id, task) in executor.tasks.iter().filter(|(_, task)| !task.is_over()) {
                    milli_cpu += task.milli_cpu();
                    if task.is_bound()
                        && let Some(other) = running.insert(uid_of(&task.pod), id)
                    {
                        return self.violated(format!("invariant 3: {id} and {other} run the same pod"));
                    }
                }
            }
            if milli_cpu > self.settings.agent_milli_cpu {
                return self.violated(format!("invariant 2: {milli_cpu} milli-CPUs are in use on {}", agent.hostname));
            }
        }
        Ok(())
    }

    /// Invariant 4: a pod is deleted by the scheduler only when its task can't run any more.
    pub(crate) fn check_deletion(&self, key: &PodKey, uid: &str) -> Result<(), Violation> {
        let Some(pod) = self.api.pods.get(key).filter(|pod| uid_of(pod) == uid) else { return Ok(()) };
        let Some(id) = task_of(pod) else { return Ok(()) };
        if pod.metadata.deletion_timestamp.is_none() && self.task_lives(&id) {
            return self.violated(format!("invariant 4: {key} is deleted while {id} lives"));
        }
        if is_terminal(pod) {
            return self.violated(format!("invariant 4: {key} ended by itself and is deleted"));
        }
        Ok(())
    }

    /// Invariant 4: a task is killed only when no pod wants it.
    pub(crate) fn check_kill(&self, id: &str) -> Result<(), Violation> {
        let wanted = self.api.pods.values().any(|pod| {
            let bound = task_of(pod).as_deref() == Some(id) && node_of(pod).is_some();
            bound && pod.metadata.deletion_timestamp.is_none() && !is_terminal(pod)
        });
        if wanted {
            return self.violated(format!("invariant 4: {id} is killed although its pod is wanted"));
        }
        Ok(())
    }

    /// Invariant 6: the end of a task is acknowledged when its pod shows it.
    pub(crate) fn check_ending(&self, id: &str) -> Result<(), Violation> {
        let bound = self.api.pods.iter().find(|(_, pod)| task_of(pod).as_deref() == Some(id));
        match bound.filter(|(_, pod)| !is_terminal(pod)) {
            Some((key, _)) => self.violated(format!("invariant 6: the end of {id} is acknowledged, but not in {key}")),
            None => Ok(()),
        }
    }

    fn task_lives(&self, id: &str) -> bool {
        let tasks = self.agents.iter().flat_map(|agent| agent.executors.values()).flat_map(|one| &one.tasks);
        tasks.filter(|(task, _)| *task == id).any(|(_, task)| !task.is_over())
    }

    /// Liveness and invariant 5: every pod that can run does, what was deleted is gone, and nothing else lives.
    pub(crate) fn check_quiet(&self) -> Result<(), Violation> {
        let mut live: BTreeMap<String, String> = BTreeMap::new();
        for executor in self.agents.iter().flat_map(|agent| agent.executors.values()) {
            for (id, task) in executor.tasks.iter().filter(|(_, task)| !task.is_over()) {
                live.insert(id.clone(), uid_of(&task.pod));
            }
        }
        for (key, pod) in self.api.pods.iter().filter(|(_, pod)| !is_terminal(pod)) {
            if pod.metadata.deletion_timestamp.is_some() {
                return self.violated(format!("liveness: {key} isn't gone"));
            }
            if phase(pod) != "Running" {
                return self.violated(format!("liveness: {key} doesn't run: {:?}", task_of(pod)));
            }
            let task = task_of(pod).unwrap_or_default();
            if live.remove(&task).is_none() {
                return self.violated(format!("invariant 5: {key} is bound, but its task {task} doesn't live"));
            }
        }
        if let Some((task, uid)) = live.into_iter().next() {
            return self.violated(format!("invariant 5: {task} lives without its pod {uid}"));
        }
        Ok(())
    }
}
