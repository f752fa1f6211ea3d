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
