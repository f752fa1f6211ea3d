//! `/frameworks`.

use km_mesos_proto::{
    json,
    v1::{self, framework_info::capability::Type as Capability},
};
use serde_json::{Value, json};

use super::{
    super::{Master, event::seconds, framework::Framework},
    amounts_of, in_old_words, merge,
    tasks::task_page,
};

impl Master {
    pub(super) fn frameworks_page(&self, id: Option<&String>) -> Value {
        let wanted = |framework: &&Framework| id.is_none_or(|id| framework.id == *id);
        let live = self.frameworks.values().filter(wanted).map(|framework| self.framework_page(framework));
        let completed = self.completed.iter().filter(wanted).map(|framework| self.framework_page(framework));
        json!({
            "frameworks": live.collect::<Vec<_>>(),
            "completed_frameworks": completed.collect::<Vec<_>>(),
            "unregistered_frameworks": [],
        })
    }

    #[allow(deprecated)]
    pub(super) fn framework_page(&self, framework: &Framework) -> Value {
        let info = &framework.info;
        let used = self.used_by(&framework.id).unallocated();
        let offered = self.offered_to(framework).unallocated();
        let offers = framework.offers.iter().filter_map(|id| self.offers.get(id)).map(offer_page);
        let mut page = json!({
            "id": framework.id,
            "name": info.name,
            "user": info.user,
            "failover_timeout": info.failover_timeout.unwrap_or(0.0),
            "checkpoint": info.checkpoint.unwrap_or(false),
            "registered_time": seconds(framework.registered),
            "unregistered_time": framework.unregistered.map_or(0.0, seconds),
            "hostname": info.hostname.clone().unwrap_or_default(),
            "webui_url": info.webui_url.clone().unwrap_or_default(),
            "capabilities": capabilities(info),
            "active": framework.connected(),
            "connected": framework.connected(),
            "recovered": framework.recovered,
            "resources": amounts_of(&(used.clone() + &offered), true),
            "used_resources": amounts_of(&used, true),
            "offered_resources": amounts_of(&offered, true),
            "tasks": framework.tasks.values().map(|task| task_page(&task.info)).collect::<Vec<_>>(),
            "unreachable_tasks": framework.unreachable_tasks.values().map(task_page).collect::<Vec<_>>(),
            "completed_tasks": framework.completed_tasks.iter().map(task_page).collect::<Vec<_>>(),
            "offers": offers.collect::<Vec<_>>(),
            "executors": self.executor_pages(&framework.id),
        });
        if framework.has(Capability::MultiRole) {
            merge(&mut page, json!({ "roles": info.roles }));
        } else {
            merge(&mut page, json!({ "role": info.role.clone().unwrap_or_else(|| "*".to_owned()) }));
        }
        if let Some(time) = framework.reregistered {
            merge(&mut page, json!({ "reregistered_time": seconds(time) }));
        }
        if let Some(principal) = &info.principal {
            merge(&mut page, json!({ "principal": principal }));
        }
        if let Some(labels) = &info.labels {
            merge(&mut page, json!({ "labels": json::to_value(labels)["labels"] }));
        }
        if let Some(constraints) = &framework.constraints {
            merge(&mut page, json!({ "offer_constraints": json::to_value(constraints) }));
        }
        page
    }

    fn executor_pages(&self, framework: &str) -> Vec<Value> {
        let of_agent = |agent: &super::super::agent::Agent| -> Vec<Value> {
            let executors = agent.executors.get(framework).into_iter().flat_map(|executors| executors.values());
            let page = |executor: &v1::ExecutorInfo| {
                let mut page = in_old_words(json::to_value(executor));
                let role = executor.resources.first().and_then(|one| one.allocation_info.as_ref()?.role.clone());
                merge(
                    &mut page,
                    json!({
                        "executor_id": executor.executor_id.value,
                        "framework_id": framework,
                        "slave_id": agent.id,
                        "resources": amounts_of(&super::super::validation::resource::read(&executor.resources).unallocated(), true),
                        "role": role,
                        "name": executor.name(),
                    }),
                );
                if let Some(labels) = &executor.labels {
                    merge(&mut page, json!({ "labels": json::to_value(labels)["labels"] }));
                }
                if let Some(command) = &executor.command {
                    merge(&mut page, json!({ "command": command_page(command) }));
                }
                page
            };
            executors.map(page).collect()
        };
        self.agents.values().flat_map(of_agent).collect()
    }
}

pub(super) fn capabilities(info: &v1::FrameworkInfo) -> Vec<&'static str> {
    let kinds = info.capabilities.iter().filter_map(|one| one.r#type.and_then(|kind| Capability::try_from(kind).ok()));
    kinds.map(|kind| kind.as_str_name()).collect()
}

/// A command in the words of the old endpoints.
fn command_page(command: &v1::CommandInfo) -> Value {
    let uris: Vec<Value> = command.uris.iter().map(json::to_value).collect();
    let mut page = json!({ "argv": command.arguments, "uris": uris });
    if let Some(value) = &command.value {
        merge(&mut page, json!({ "value": value }));
    }
    if let Some(environment) = &command.environment {
        merge(&mut page, json!({ "environment": json::to_value(environment) }));
    }
    page
}

fn offer_page(offer: &v1::Offer) -> Value {
    let resources = super::super::validation::resource::read(&offer.resources).unallocated();
    json!({
        "id": offer.id.value,
        "framework_id": offer.framework_id.value,
        "slave_id": offer.agent_id.value,
        "allocation_info": offer.allocation_info.as_ref().map(json::to_value),
        "resources": amounts_of(&resources, true),
    })
}
