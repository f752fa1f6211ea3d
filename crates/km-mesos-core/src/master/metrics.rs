//! What `/metrics/snapshot` and GET_METRICS show, under the names of Apache Mesos.

use std::collections::BTreeMap;

use km_mesos_proto::{
    resources::Resources,
    v1::{self, TaskState, scheduler::call::Type, task_status},
};

use super::{Master, task::state_of};

/// Things counted since the master's start.
#[derive(Debug, Default)]
pub(super) struct Counters(BTreeMap<String, u64>);

/// Counters that are shown from the start, though nothing was counted yet.
const ALWAYS_SHOWN: [&str; 22] = [
    "dropped_messages",
    "invalid_status_updates",
    "messages_exited_executor",
    "messages_kill_task",
    "messages_launch_tasks",
    "messages_reconcile_tasks",
    "messages_register_framework",
    "messages_register_slave",
    "messages_revive_offers",
    "messages_status_update",
    "messages_status_update_acknowledgement",
    "messages_suppress_offers",
    "messages_unregister_slave",
    "slave_registrations",
    "slave_removals",
    "slave_reregistrations",
    "slave_unreachable_completed",
    "slave_unreachable_scheduled",
    "tasks_killed",
    "valid_status_updates",
    "slave_removals/reason_unhealthy",
    "slave_removals/reason_unregistered",
];

/// Final states that are counted, with the name of their counter.
const ENDINGS: [(TaskState, &str); 8] = [
    (TaskState::TaskFinished, "finished"),
    (TaskState::TaskFailed, "failed"),
    (TaskState::TaskKilled, "killed"),
    (TaskState::TaskError, "error"),
    (TaskState::TaskLost, "lost"),
    (TaskState::TaskDropped, "dropped"),
    (TaskState::TaskGone, "gone"),
    (TaskState::TaskGoneByOperator, "gone_by_operator"),
];

/// States that tasks are counted in while they last.
const STAGES: [(TaskState, &str); 4] = [
    (TaskState::TaskStaging, "staging"),
    (TaskState::TaskStarting, "starting"),
    (TaskState::TaskRunning, "running"),
    (TaskState::TaskKilling, "killing"),
];

impl Counters {
    pub fn count(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    pub fn count_call(&mut self, kind: Type) {
        let name = match kind {
            Type::Kill => "messages_kill_task",
            Type::Accept => "messages_launch_tasks",
            Type::Revive => "messages_revive_offers",
            Type::Suppress => "messages_suppress_offers",
            Type::Acknowledge => "messages_status_update_acknowledgement",
            Type::Decline => "messages_decline_offers",
            _ => return,
        };
        self.count(name);
    }

    /// Counts a status that ends a task, by state, source and reason.
    pub fn count_status(&mut self, status: &v1::TaskStatus) {
        let state = state_of(status.state);
        let Some((_, name)) = ENDINGS.iter().find(|(ending, _)| *ending == state) else { return };
        self.count(&format!("tasks_{name}"));
        let source = match status.source() {
            task_status::Source::Master => "source_master",
            task_status::Source::Agent => "source_slave",
            task_status::Source::Executor => "source_executor",
        };
        if let Some(reason) = status.reason.and_then(|number| task_status::Reason::try_from(number).ok()) {
            let reason = reason.as_str_name().to_lowercase().replace("agent", "slave");
            self.count(&format!("task_{name}/{source}/{reason}"));
        }
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

impl Master {
    /// All metrics by name.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for name in ALWAYS_SHOWN {
            all.insert(format!("master/{name}"), 0.0);
        }
        for (name, count) in &self.counters.0 {
            all.insert(metric_name(name), *count as f64);
        }
        for (_, name) in ENDINGS {
            all.insert(format!("master/tasks_{name}"), self.counters.get(&format!("tasks_{name}")) as f64);
        }
        self.add_gauges(&mut all);
        self.add_resources(&mut all);
        for (role, count) in self.allocator.active_filters(self.now) {
            all.insert(format!("allocator/mesos/offer_filters/roles/{role}/active"), count as f64);
        }
        for role in self.frameworks.values().flat_map(super::framework::Framework::roles) {
            let share = self.allocator.share(&role);
            all.insert(format!("allocator/mesos/roles/{role}/shares/dominant"), share);
        }
        all
    }

    fn add_gauges(&self, all: &mut BTreeMap<String, f64>) {
        let mut put = |name: &str, value: usize| all.insert(format!("master/{name}"), value as f64);
        let agents = || self.agents.values();
        put("elected", 1);
        put("slaves_active", agents().filter(|agent| agent.offerable()).count());
        put("slaves_inactive", agents().filter(|agent| !agent.offerable()).count());
        put("slaves_connected", agents().filter(|agent| agent.connected()).count());
        put("slaves_disconnected", agents().filter(|agent| !agent.connected()).count());
        put("slaves_unreachable", self.unreachable.len());
        let frameworks = || self.frameworks.values();
        put("frameworks_active", frameworks().filter(|framework| framework.connected()).count());
        put("frameworks_inactive", frameworks().filter(|framework| !framework.connected()).count());
        put("frameworks_connected", frameworks().filter(|framework| framework.connected()).count());
        put("frameworks_disconnected", frameworks().filter(|framework| !framework.connected()).count());
        put("outstanding_offers", self.offers.len());
        put("operator_event_stream_subscribers", self.operators.len());
        put("event_queue_dispatches", 0);
        put("event_queue_http_requests", 0);
        put("event_queue_messages", 0);
        let lost = frameworks().flat_map(|framework| framework.unreachable_tasks.values());
        put("tasks_unreachable", lost.filter(|task| state_of(task.state) == TaskState::TaskUnreachable).count());
        for (stage, name) in STAGES {
            let tasks = frameworks().flat_map(|framework| framework.tasks.values());
            put(&format!("tasks_{name}"), tasks.filter(|task| task.state() == stage).count());
        }
        all.insert("master/uptime_secs".to_owned(), (self.now.saturating_sub(self.started)).as_secs_f64());
        all.insert("registrar/queued_operations".to_owned(), 0.0);
        all.insert("allocator/event_queue_dispatches".to_owned(), 0.0);
    }

    fn add_resources(&self, all: &mut BTreeMap<String, f64>) {
        let total: Resources = self.agents.values().map(|agent| agent.total.clone()).sum();
        let used: Resources = self.agents.values().map(super::agent::Agent::all_used).sum();
        for name in ["cpus", "gpus", "mem", "disk"] {
            for (suffix, of) in [("", false), ("_revocable", true)] {
                let pick = |resources: &Resources| {
                    let kind = if of { resources.revocable() } else { resources.non_revocable() };
                    kind.scalar(name).to_f64()
                };
                let (total, used) = (pick(&total), pick(&used));
                let percent = if total > 0.0 { used / total } else { 0.0 };
                all.insert(format!("master/{name}{suffix}_total"), total);
                all.insert(format!("master/{name}{suffix}_used"), used);
                all.insert(format!("master/{name}{suffix}_percent"), percent);
                if !of {
                    all.insert(format!("allocator/mesos/resources/{name}/total"), total);
                }
            }
        }
    }

    /// How many of a list of tasks are in each state, by the state's name.
    pub(super) fn count_states<'a>(tasks: impl Iterator<Item = &'a v1::Task>) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for task in tasks {
            *counts.entry(state_of(task.state).as_str_name()).or_default() += 1;
        }
        counts
    }
}

fn metric_name(counter: &str) -> String {
    match counter {
        "allocation_runs" => "allocator/mesos/allocation_runs".to_owned(),
        "slave_removals_reason_unhealthy" => "master/slave_removals/reason_unhealthy".to_owned(),
        "slave_removals_reason_unregistered" => "master/slave_removals/reason_unregistered".to_owned(),
        other => format!("master/{other}"),
    }
}
