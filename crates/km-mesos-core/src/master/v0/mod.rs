//! The JSON of Mesos' older read endpoints, in their words: an agent is a "slave" there.

mod agents;
mod frameworks;
mod tasks;

use std::collections::BTreeMap;

use km_mesos_proto::{
    json,
    resources::{Resources, Value as Amount},
};
use serde_json::{Map, Value, json};

use super::{Master, event::seconds};

/// A read endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    State,
    StateSummary,
    Slaves,
    Frameworks,
    Tasks,
    Roles,
    Weights,
    Quota,
    Flags,
    Version,
    Metrics,
    MaintenanceSchedule,
    MaintenanceStatus,
}

impl Page {
    /// The endpoint of a path without the leading slash, such as `state-summary`.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "state" | "state.json" => Self::State,
            "state-summary" => Self::StateSummary,
            "slaves" => Self::Slaves,
            "frameworks" => Self::Frameworks,
            "tasks" | "tasks.json" => Self::Tasks,
            "roles" | "roles.json" => Self::Roles,
            "weights" => Self::Weights,
            "quota" => Self::Quota,
            "flags" => Self::Flags,
            "version" => Self::Version,
            "metrics/snapshot" => Self::Metrics,
            "maintenance/schedule" => Self::MaintenanceSchedule,
            "maintenance/status" => Self::MaintenanceStatus,
            _ => return None,
        })
    }
}

impl Master {
    /// The page's JSON. `query` is the URL's; unknown parameters are ignored.
    pub fn page(&self, page: Page, query: &BTreeMap<String, String>) -> Value {
        match page {
            Page::State => self.state_page(),
            Page::StateSummary => self.summary_page(),
            Page::Slaves => self.slaves_page(query.get("slave_id")),
            Page::Frameworks => self.frameworks_page(query.get("framework_id")),
            Page::Tasks => self.tasks_page(query),
            Page::Roles => self.roles_page(),
            Page::Weights => {
                let weights = self.allocator.weights().iter();
                Value::Array(weights.map(|(role, weight)| json!({"role": role, "weight": weight})).collect())
            }
            Page::Quota => json::to_value(&self.quota_status()),
            Page::Flags => json!({ "flags": self.config.flags }),
            Page::Version => self.version_page(),
            Page::Metrics => json!(self.metrics()),
            Page::MaintenanceSchedule => json::to_value(&self.schedule),
            Page::MaintenanceStatus => json::to_value(&self.maintenance_status()),
        }
    }

    fn version_page(&self) -> Value {
        json!({
            "version": self.version(),
            "build_date": "2020-11-16 00:00:00",
            "build_time": 1_605_484_800.0,
            "build_user": "km",
        })
    }

    fn state_page(&self) -> Value {
        let mut page = self.version_page();
        let info = &self.config.info;
        let leader = json!({
            "id": info.id,
            "pid": info.pid,
            "port": info.port,
            "hostname": info.hostname,
        });
        let rest = json!({
            "start_time": seconds(self.started),
            "elected_time": seconds(self.started),
            "id": info.id,
            "pid": info.pid,
            "hostname": info.hostname,
            "capabilities": ["AGENT_UPDATE", "AGENT_DRAINING", "QUOTA_V2"],
            "activated_slaves": self.agents.values().filter(|agent| agent.offerable()).count(),
            "deactivated_slaves": self.agents.values().filter(|agent| !agent.offerable()).count(),
            "unreachable_slaves": self.unreachable.len(),
            "leader": info.pid,
            "leader_info": leader,
            "flags": self.config.flags,
            "slaves": self.slaves(None),
            "recovered_slaves": self.recovered_slaves(),
            "frameworks": self.frameworks.values().map(|framework| self.framework_page(framework)).collect::<Vec<_>>(),
            "completed_frameworks": self.completed.iter().map(|framework| self.framework_page(framework)).collect::<Vec<_>>(),
            "orphan_tasks": [],
            "unregistered_frameworks": [],
        });
        merge(&mut page, rest);
        if let Some(cluster) = &self.config.cluster {
            merge(&mut page, json!({ "cluster": cluster }));
        }
        page
    }

    fn roles_page(&self) -> Value {
        let role = |name: &String| {
            let held = self.held_in_role(name);
            let (offered, allocated) = self.split_role(name);
            let quota = self.allocator.quotas().get(name).cloned().unwrap_or_default();
            let within = |other: &str| other == name || super::validation::role::is_below(other, name);
            let reserved: Resources = self
                .agents
                .values()
                .flat_map(|agent| {
                    agent
                        .total
                        .reservations()
                        .into_iter()
                        .filter(|(role, _)| within(role))
                        .map(|(_, part)| part)
                        .collect::<Vec<_>>()
                })
                .sum();
            let amounts = |pairs: Vec<(String, f64)>| -> Value {
                pairs.into_iter().map(|(name, amount)| (name, json!(amount))).collect::<Map<_, _>>().into()
            };
            let guarantee = quota.guarantees.iter().map(|(name, amount)| (name.to_owned(), amount.to_f64())).collect();
            let limit = quota.limits.iter().map(|(name, amount)| (name.to_owned(), amount.to_f64())).collect();
            let consumed = self.consumed_without_offers(name);
            let consumed = consumed.iter().map(|(name, amount)| (name.to_owned(), amount.to_f64())).collect();
            json!({
                "name": name,
                "weight": self.allocator.weights().get(name).copied().unwrap_or(1.0),
                "frameworks": self.role_view(name).frameworks.iter().map(|id| id.value.clone()).collect::<Vec<_>>(),
                "resources": amounts_of(&held, false),
                "allocated": amounts_of(&allocated, false),
                "offered": amounts_of(&offered, false),
                "reserved": amounts_of(&reserved, false),
                "quota": {"role": name, "guarantee": amounts(guarantee), "limit": amounts(limit), "consumed": amounts(consumed)},
            })
        };
        json!({ "roles": self.role_names().iter().map(role).collect::<Vec<_>>() })
    }

    fn split_role(&self, name: &str) -> (Resources, Resources) {
        let offered: Resources =
            self.offers.values().map(|offer| super::validation::resource::read(&offer.resources)).sum();
        let used: Resources = self.agents.values().flat_map(|agent| agent.used.values()).cloned().sum();
        let pick = |all: Resources| all.allocations().remove(name).unwrap_or_default();
        (pick(offered), pick(used))
    }
}

/// Amounts as the old endpoints show them. With `always`, the usual names are there even when they are zero.
fn amounts_of(resources: &Resources, always: bool) -> Value {
    let mut amounts = Map::new();
    if always {
        for name in ["cpus", "disk", "gpus", "mem"] {
            amounts.insert(name.to_owned(), json!(0.0));
        }
    }
    for name in resources.names() {
        let value = match resources.get(name).iter().next().map(|one| &one.value) {
            Some(Amount::Scalar(_)) => json!(resources.scalar(name).to_f64()),
            Some(Amount::Ranges(_)) => json!(ranges_text(resources, name)),
            Some(Amount::Set(items)) => json!(format!("{{{}}}", items.iter().cloned().collect::<Vec<_>>().join(", "))),
            None => continue,
        };
        amounts.insert(name.to_owned(), value);
    }
    Value::Object(amounts)
}

fn ranges_text(resources: &Resources, name: &str) -> String {
    let ranges = resources.ranges(name);
    let texts: Vec<String> = ranges.ranges().map(|range| format!("{}-{}", range.start(), range.end())).collect();
    format!("[{}]", texts.join(", "))
}

/// Reserved resources by role.
fn reserved_of(resources: &Resources) -> Value {
    let by_role = resources.reservations().into_iter();
    Value::Object(by_role.map(|(role, part)| (role.to_owned(), amounts_of(&part, true))).collect())
}

/// The full messages of resources.
fn full(resources: &Resources) -> Value {
    Value::Array(resources.to_protos_for_operators().iter().map(|one| in_old_words(json::to_value(one))).collect())
}

/// Adds an object's members to another's.
fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// `agent_id` becomes `slave_id`, SOURCE_AGENT becomes SOURCE_SLAVE, and so on; ids are told by their value alone.
fn in_old_words(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (old_name(&name), in_old_words(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(in_old_words).collect()),
        Value::String(text) if text.starts_with("SOURCE_") || text.starts_with("REASON_") => {
            Value::String(text.replace("AGENT", "SLAVE"))
        }
        other => other,
    }
}

fn old_name(name: &str) -> String {
    if name == "agent_id" { "slave_id".to_owned() } else { name.to_owned() }
}
