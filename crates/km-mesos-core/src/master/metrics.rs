//! What `/metrics/snapshot` and GET_METRICS show, under the names of Apache Mesos.

use std::collections::BTreeMap;

use km_mesos_proto::{
    resources::Resources,
    v1::{self, TaskState, offer::Operation, scheduler::call::Type, task_status},
};

use super::{
    Master,
    metric_names::{ALWAYS_SHOWN, ENDINGS, OPERATIONS, STAGES, SUMMED_UP, of_operations},
    task::state_of,
};

/// Things counted since the master's start.
#[derive(Debug, Default)]
pub(super) struct Counters(BTreeMap<String, u64>);

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
            Type::Message => "messages_framework_to_executor",
            Type::Request => "messages_resource_request",
            Type::Teardown => "messages_unregister_framework",
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

    /// Counts what became of an operation: all together, and those of its type.
    pub fn count_operation(&mut self, operation: &Operation, outcome: &str) {
        let kind = operation.r#type().as_str_name().to_lowercase();
        self.count(&format!("operations/{outcome}"));
        self.count(&format!("operations/{kind}/{outcome}"));
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
        all.extend(of_operations().map(|name| (format!("master/{name}"), 0.0)));
        for (name, count) in &self.counters.0 {
            all.insert(metric_name(name), *count as f64);
        }
        for (_, name) in ENDINGS {
            all.insert(format!("master/tasks_{name}"), self.counters.get(&format!("tasks_{name}")) as f64);
        }
        self.add_gauges(&mut all);
        self.add_resources(&mut all);
        self.add_pending_operations(&mut all);
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
        all.insert("allocator/mesos/event_queue_dispatches".to_owned(), 0.0);
    }

    fn add_pending_operations(&self, all: &mut BTreeMap<String, f64>) {
        let names = OPERATIONS.iter().map(|kind| format!("master/operations/{kind}/pending"));
        all.extend(names.chain(["master/operations/pending".to_owned()]).map(|name| (name, 0.0)));
        let operations = self.agents.values().flat_map(|agent| agent.operations.values());
        let pending = |one: &&v1::Operation| one.latest_status.state == v1::OperationState::OperationPending as i32;
        for operation in operations.filter(pending) {
            let kind = operation.info.r#type().as_str_name().to_lowercase();
            for name in ["master/operations/pending".to_owned(), format!("master/operations/{kind}/pending")] {
                *all.entry(name).or_default() += 1.0;
            }
        }
    }

    fn add_resources(&self, all: &mut BTreeMap<String, f64>) {
        let total: Resources = self.agents.values().map(|agent| agent.total.clone()).sum();
        let used: Resources = self.agents.values().map(super::agent::Agent::all_used).sum();
        let offered: Resources = self.agents.values().map(|agent| self.offered_on(agent)).sum();
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
                if !of && (name != "gpus" || total > 0.0) {
                    all.insert(format!("allocator/mesos/resources/{name}/total"), total);
                    let taken = used + offered.scalar(name).to_f64();
                    all.insert(format!("allocator/mesos/resources/{name}/offered_or_allocated"), taken);
                }
            }
        }
    }

    /// How many of a list of tasks are in each state, by the state's name; the usual ones are always there.
    pub(super) fn count_states<'a>(tasks: impl Iterator<Item = &'a v1::Task>) -> BTreeMap<&'static str, u64> {
        let mut counts: BTreeMap<_, _> = SUMMED_UP.iter().map(|state| (state.as_str_name(), 0)).collect();
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
