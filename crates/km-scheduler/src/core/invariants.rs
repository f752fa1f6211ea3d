//! The numbered invariants of the design that the core can check by itself: a panic in debug builds.
//!
//! That no port is held twice (8) can't be checked here: Mesos may offer the port of a task whose end we haven't heard
//! of yet. The simulated Mesos checks it.

use std::{collections::BTreeMap, time::Duration};

use super::Core;

impl Core {
    /// Invariant 3: a pod has at most one live task, and doesn't wait beside it. And what is kept to find things fast
    /// says the same as looking through everything.
    pub(super) fn check_invariants(&self, now: Duration) {
        if !cfg!(debug_assertions) {
            return;
        }
        for task in self.tasks.live() {
            assert!(self.queue.get(&task.pod).is_none(), "invariant 3: {} waits and has task {}", task.pod, task.id);
            let current = self.tasks.of_pod(&task.pod).map(|task| task.id.as_str());
            assert_eq!(current, Some(task.id.as_str()), "invariant 3: {} has two tasks", task.pod);
        }
        self.queue.check_index();
        self.effects.check_index();
        self.agents.check_index();
        self.check_upkeeps(now);
        self.check_strangers();
        self.check_tasks_of_agents();
    }

    fn check_tasks_of_agents(&self) {
        let mut known = BTreeMap::<&str, Vec<&str>>::new();
        for task in self.tasks.live() {
            known.entry(&task.agent_id).or_default().push(&task.id);
        }
        for (agent, tasks) in known {
            let found: Vec<&str> = self.tasks.of_agent(agent).map(|task| task.id.as_str()).collect();
            assert_eq!(found, tasks, "the tasks of agent {agent}");
        }
    }
}
