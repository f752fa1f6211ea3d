//! The numbered invariants of the design that the core can check by itself: a panic in debug builds.
//!
//! That no port is held twice (8) can't be checked here: Mesos may offer the port of a task whose end we haven't heard
//! of yet. The simulated Mesos checks it.

use super::Core;

impl Core {
    /// Invariant 3: a pod has at most one live task, and doesn't wait beside it.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for task in self.tasks.live() {
            assert!(self.queue.get(&task.pod).is_none(), "invariant 3: {} waits and has task {}", task.pod, task.id);
            let current = self.tasks.of_pod(&task.pod).map(|task| task.id.as_str());
            assert_eq!(current, Some(task.id.as_str()), "invariant 3: {} has two tasks", task.pod);
        }
    }
}
