//! `/tasks` and the tasks inside other pages.

use std::collections::BTreeMap;

use km_mesos_proto::{json, v1};
use serde_json::{Value, json};

use super::{
    super::{Master, task::state_of, validation::resource::read},
    agents::ports_text,
    amounts_of, in_old_words, merge,
};

/// How many tasks a page shows when it isn't told.
const DEFAULT_LIMIT: usize = 100;

impl Master {
    /// All tasks, the newest first: `limit` (-1 = all), `offset`, `order` (`asc`, `des`), `framework_id`, `task_id`.
    pub(super) fn tasks_page(&self, query: &BTreeMap<String, String>) -> Value {
        let mut tasks: Vec<&v1::Task> = Vec::new();
        for framework in self.frameworks.values().chain(&self.completed) {
            tasks.extend(framework.tasks.values().map(|task| &task.info));
            tasks.extend(framework.unreachable_tasks.values());
            tasks.extend(&framework.completed_tasks);
        }
        if let Some(id) = query.get("framework_id") {
            tasks.retain(|task| task.framework_id.value == *id);
        }
        if let Some(id) = query.get("task_id") {
            tasks.retain(|task| task.task_id.value == *id);
        }
        let started = |task: &v1::Task| task.statuses.first().and_then(|status| status.timestamp).unwrap_or(f64::MAX);
        tasks.sort_by(|left, right| started(left).total_cmp(&started(right)));
        if query.get("order").is_none_or(|order| order != "asc") {
            tasks.reverse();
        }
        let offset = query.get("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        let limit = match query.get("limit").map(|text| text.parse::<i64>()) {
            Some(Ok(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
            Some(Err(_)) | None => DEFAULT_LIMIT,
        };
        json!({ "tasks": tasks.into_iter().skip(offset).take(limit).map(task_page).collect::<Vec<_>>() })
    }
}

/// One task.
pub(super) fn task_page(task: &v1::Task) -> Value {
    let resources = read(&task.resources);
    let role = task.resources.first().and_then(|one| one.allocation_info.as_ref()?.role.clone());
    let mut amounts = amounts_of(&resources.unallocated(), true);
    if !resources.ports().is_empty() {
        merge(&mut amounts, json!({ "ports": ports_text(&resources) }));
    }
    let mut page = json!({
        "id": task.task_id.value,
        "name": task.name,
        "framework_id": task.framework_id.value,
        "executor_id": task.executor_id.as_ref().map(|id| id.value.clone()).unwrap_or_default(),
        "slave_id": task.agent_id.value,
        "state": state_of(task.state).as_str_name(),
        "resources": amounts,
        "role": role,
        "statuses": task.statuses.iter().map(status_page).collect::<Vec<_>>(),
    });
    if let Some(user) = &task.user {
        merge(&mut page, json!({ "user": user }));
    }
    if let Some(labels) = &task.labels {
        merge(&mut page, json!({ "labels": json::to_value(labels)["labels"] }));
    }
    if let Some(discovery) = &task.discovery {
        merge(&mut page, json!({ "discovery": json::to_value(discovery) }));
    }
    if let Some(container) = &task.container {
        merge(&mut page, json!({ "container": json::to_value(container) }));
    }
    if let Some(check) = &task.health_check {
        merge(&mut page, json!({ "health_check": json::to_value(check) }));
    }
    page
}

fn status_page(status: &v1::TaskStatus) -> Value {
    let mut page = json!({
        "state": state_of(status.state).as_str_name(),
        "timestamp": status.timestamp.unwrap_or(0.0),
    });
    if let Some(labels) = &status.labels {
        merge(&mut page, json!({ "labels": json::to_value(labels)["labels"] }));
    }
    if let Some(container) = &status.container_status {
        merge(&mut page, json!({ "container_status": in_old_words(json::to_value(container)) }));
    }
    if let Some(healthy) = status.healthy {
        merge(&mut page, json!({ "healthy": healthy }));
    }
    page
}
