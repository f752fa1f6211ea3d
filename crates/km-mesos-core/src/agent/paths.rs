//! Where sandboxes and checkpoints are.

/// An id as one component of a path. Lawful Mesos ids stay as they are; the others cannot leave their directory.
pub fn path_component(id: &str) -> String {
    match id {
        "" | "." | ".." => format!("%{id}"),
        _ => id.replace(['/', '\0'], "%"),
    }
}

/// The sandbox of an executor's run, laid out as Apache Mesos does.
pub fn sandbox(work_dir: &str, agent: &str, framework: &str, executor: &str, container: &str) -> String {
    let [agent, framework, executor, container] = [agent, framework, executor, container].map(path_component);
    format!("{work_dir}/slaves/{agent}/frameworks/{framework}/executors/{executor}/runs/{container}")
}

pub(super) const AGENT: &str = "agent";
pub(super) const RESOURCES: &str = "resources";
pub(super) const FRAMEWORKS: &str = "frameworks";
pub(super) const OPERATIONS: &str = "operations";
pub(super) const DRAINING: &str = "draining";

pub(super) fn operation(key: &str) -> String {
    format!("{OPERATIONS}/{key}")
}

pub(super) fn framework_directory(framework: &str) -> String {
    format!("{FRAMEWORKS}/{}", path_component(framework))
}

pub(super) fn framework(framework: &str) -> String {
    format!("{}/info", framework_directory(framework))
}

pub(super) fn executor_directory(framework: &str, executor: &str) -> String {
    format!("{}/executors/{}", framework_directory(framework), path_component(executor))
}

pub(super) fn executor(framework: &str, executor: &str) -> String {
    format!("{}/info", executor_directory(framework, executor))
}

pub(super) fn task_directory(framework: &str, task: &str) -> String {
    format!("{}/tasks/{}", framework_directory(framework), path_component(task))
}

pub(super) fn task(framework: &str, task: &str) -> String {
    format!("{}/info", task_directory(framework, task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_leave_their_directory() {
        for (id, component) in [("pod.1", "pod.1"), ("..", "%.."), (".", "%."), ("", "%"), ("a/../b", "a%..%b")] {
            assert_eq!(path_component(id), component);
        }
    }

    #[test]
    fn sandboxes_are_where_mesos_has_them() {
        assert_eq!(sandbox("/w", "m-S0", "m-0000", "e", "c"), "/w/slaves/m-S0/frameworks/m-0000/executors/e/runs/c");
    }
}
