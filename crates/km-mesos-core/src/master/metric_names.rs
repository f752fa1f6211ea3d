//! The names of metrics, as Apache Mesos has them.

use km_mesos_proto::v1::TaskState;

/// Counters of the master that are shown from the start, though nothing was counted yet.
pub(super) const ALWAYS_SHOWN: &[&str] = &[
    "dropped_messages",
    "http_cache_hits",
    "invalid_executor_to_framework_messages",
    "invalid_framework_to_executor_messages",
    "invalid_operation_status_update_acknowledgements",
    "invalid_operation_status_updates",
    "invalid_status_update_acknowledgements",
    "invalid_status_updates",
    "messages_authenticate",
    "messages_deactivate_framework",
    "messages_decline_offers",
    "messages_executor_to_framework",
    "messages_exited_executor",
    "messages_framework_to_executor",
    "messages_kill_task",
    "messages_launch_tasks",
    "messages_operation_status_update",
    "messages_operation_status_update_acknowledgement",
    "messages_reconcile_operations",
    "messages_reconcile_tasks",
    "messages_register_framework",
    "messages_register_slave",
    "messages_reregister_framework",
    "messages_reregister_slave",
    "messages_resource_request",
    "messages_revive_offers",
    "messages_status_update",
    "messages_status_update_acknowledgement",
    "messages_suppress_offers",
    "messages_unregister_framework",
    "messages_unregister_slave",
    "messages_update_slave",
    "recovery_slave_removals",
    "slave_registrations",
    "slave_removals",
    "slave_removals/reason_registered",
    "slave_removals/reason_unhealthy",
    "slave_removals/reason_unregistered",
    "slave_reregistrations",
    "slave_shutdowns_canceled",
    "slave_shutdowns_completed",
    "slave_shutdowns_scheduled",
    "slave_unreachable_canceled",
    "slave_unreachable_completed",
    "slave_unreachable_scheduled",
    "tasks_killed",
    "valid_executor_to_framework_messages",
    "valid_framework_to_executor_messages",
    "valid_operation_status_update_acknowledgements",
    "valid_operation_status_updates",
    "valid_status_update_acknowledgements",
    "valid_status_updates",
];

/// What can become of an operation, besides being pending.
const OUTCOMES: [&str; 8] =
    ["dropped", "error", "failed", "finished", "gone_by_operator", "recovering", "total", "unreachable"];

/// The operations that are counted apart.
pub(super) const OPERATIONS: [&str; 8] =
    ["create", "create_disk", "destroy", "destroy_disk", "grow_volume", "reserve", "shrink_volume", "unreserve"];

/// The names of all counters of operations.
pub(super) fn of_operations() -> impl Iterator<Item = String> {
    let all = OUTCOMES.into_iter().map(|outcome| format!("operations/{outcome}"));
    let each = |kind: &'static str| OUTCOMES.into_iter().map(move |outcome| format!("operations/{kind}/{outcome}"));
    all.chain(OPERATIONS.into_iter().flat_map(each))
}

/// Final states that are counted, with the name of their counter.
pub(super) const ENDINGS: [(TaskState, &str); 8] = [
    (TaskState::TaskFinished, "finished"),
    (TaskState::TaskFailed, "failed"),
    (TaskState::TaskKilled, "killed"),
    (TaskState::TaskError, "error"),
    (TaskState::TaskLost, "lost"),
    (TaskState::TaskDropped, "dropped"),
    (TaskState::TaskGone, "gone"),
    (TaskState::TaskGoneByOperator, "gone_by_operator"),
];

/// States that a summary counts.
pub(super) const SUMMED_UP: [TaskState; 10] = {
    use TaskState::*;
    [
        TaskStaging,
        TaskStarting,
        TaskRunning,
        TaskKilling,
        TaskFinished,
        TaskKilled,
        TaskFailed,
        TaskLost,
        TaskError,
        TaskUnreachable,
    ]
};

/// States that tasks are counted in while they last.
pub(super) const STAGES: [(TaskState, &str); 4] = [
    (TaskState::TaskStaging, "staging"),
    (TaskState::TaskStarting, "starting"),
    (TaskState::TaskRunning, "running"),
    (TaskState::TaskKilling, "killing"),
];
