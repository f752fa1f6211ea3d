//! The texts that executor and scheduler exchange in Mesos statuses and framework messages: those of the original,
//! which tools may know.

pub const UNMARSHAL_TASK_DATA_FAILURE: &str = "unmarshal-task-data-failure";
pub const CREATE_BINDING_SUCCESS: &str = "create-binding-success";
pub const CREATE_BINDING_FAILURE: &str = "create-binding-failure";
pub const ANNOTATION_UPDATE_FAILURE: &str = "annotation-update-failure";
pub const EXECUTOR_SHUTDOWN: &str = "executor-shutdown";
pub const POD_DELETED: &str = "pod-deleted";
pub const KILL_POD_TASK: &str = "kill-pod-task";
pub const TASK_LOST_ACK: &str = "task-lost-ack";

/// Framework message: end, if you have nothing to do.
pub const KAMIKAZE: &str = "kamikaze";
/// Framework message: the scheduler holds that task for lost.
pub const TASK_LOST_PREFIX: &str = "task-lost:";
/// Prefix of the message of TASK_RUNNING; `<pod>_<namespace>` follows.
pub const POD_RUNNING_PREFIX: &str = "pod-running:";
/// Why a pod failed: somebody else on the machine has a host port of it.
pub const HOST_PORT_TAKEN: &str = "HostPortTaken";

/// What a pod is told of a host port that is taken; [`taken_host_port`] reads it.
pub fn host_port_taken(port: u16, protocol: &str) -> String {
    format!("host port {port}/{protocol} is taken by another process of the machine")
}

/// The host port that the message of a failed task complains about.
pub fn taken_host_port(message: &str) -> Option<u16> {
    let rest = message.strip_prefix(HOST_PORT_TAKEN)?.strip_prefix(": host port ")?;
    rest.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_read_back() {
        let told = format!("{HOST_PORT_TAKEN}: {}", host_port_taken(31_000, "UDP"));
        assert_eq!(taken_host_port(&told), Some(31_000));
        for other in ["", HOST_PORT_TAKEN, "HostPortTaken: host port x/TCP", "container c exited with code 1"] {
            assert_eq!(taken_host_port(other), None, "{other}");
        }
    }
}
