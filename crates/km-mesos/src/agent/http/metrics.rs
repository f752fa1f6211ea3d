//! What `/metrics/snapshot` and GET_METRICS show of an agent, under the names of Apache Mesos.

use km_mesos_proto::resources::Resources;

use super::super::shared::Shared;

/// Things that do not happen to an agent of this kind, or that it does not count.
const NEVER: [&str; 9] = [
    "container_launch_errors",
    "executors_preempted",
    "invalid_framework_messages",
    "invalid_status_updates",
    "recovery_errors",
    "valid_framework_messages",
    "valid_status_updates",
    "executor_directory_max_allowed_age_secs",
    "recovery_time_secs",
];

/// Metrics by name.
pub(super) fn metrics(shared: &Shared) -> Vec<(String, f64)> {
    let core = shared.core();
    let counts = core.counts();
    let uptime = shared.clock.now().as_secs_f64() - shared.clock.started_at();
    let mut all: Vec<(String, f64)> = [
        ("uptime_secs", uptime),
        ("registered", f64::from(u8::from(core.is_registered()))),
        ("frameworks_active", counts.frameworks as f64),
        ("executors_registering", counts.executors_registering as f64),
        ("executors_running", counts.executors_running as f64),
        ("executors_terminating", counts.executors_terminating as f64),
        ("executors_terminated", counts.executors_terminated as f64),
        ("tasks_staging", counts.tasks_staging as f64),
        ("tasks_starting", counts.tasks_starting as f64),
        ("tasks_running", counts.tasks_running as f64),
        ("tasks_killing", counts.tasks_killing as f64),
        ("tasks_finished", counts.tasks_finished as f64),
        ("tasks_failed", counts.tasks_failed as f64),
        ("tasks_killed", counts.tasks_killed as f64),
        ("tasks_gone", counts.tasks_gone as f64),
        ("tasks_lost", counts.tasks_lost as f64),
    ]
    .map(|(name, value)| (format!("slave/{name}"), value))
    .into();
    all.extend(NEVER.map(|name| (format!("slave/{name}"), 0.0)));
    let total = Resources::from_protos(core.resources()).unwrap_or_default();
    add_resources(&mut all, &total, &core.used());
    all
}

fn add_resources(all: &mut Vec<(String, f64)>, total: &Resources, used: &Resources) {
    for (suffix, total, used) in
        [("", total.non_revocable(), used.non_revocable()), ("_revocable", total.revocable(), used.revocable())]
    {
        for name in ["cpus", "gpus", "mem", "disk"] {
            let (total, used) = (total.scalar(name).to_f64(), used.scalar(name).to_f64());
            let percent = if total > 0.0 { used / total } else { 0.0 };
            all.push((format!("slave/{name}{suffix}_total"), total));
            all.push((format!("slave/{name}{suffix}_used"), used));
            all.push((format!("slave/{name}{suffix}_percent"), percent));
        }
    }
}
