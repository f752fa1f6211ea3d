//! The numbered invariants of the design that the core can check by itself: a panic in debug builds, an error in the
//! log otherwise.

use std::collections::BTreeMap;

use super::Core;

impl Core {
    /// Invariant 3: a pod has at most one live task, and doesn't wait beside it. Invariant 8: a host port is held by
    /// at most one pod of an agent.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut ports: BTreeMap<(&str, u16), &str> = BTreeMap::new();
        for task in self.tasks.live() {
            assert!(self.queue.get(&task.pod).is_none(), "invariant 3: {} waits and has task {}", task.pod, task.id);
            let current = self.tasks.of_pod(&task.pod).map(|task| task.id.as_str());
            assert_eq!(current, Some(task.id.as_str()), "invariant 3: {} has two tasks", task.pod);
            for entry in &task.ports {
                let holder = ports.insert((&task.agent_id, entry.host_port), &task.id);
                let other = holder.filter(|holder| *holder != task.id);
                assert!(other.is_none(), "invariant 8: {other:?} and {} hold port {}", task.id, entry.host_port);
            }
        }
    }
}
