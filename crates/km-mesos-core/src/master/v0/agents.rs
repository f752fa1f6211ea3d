//! `/slaves` and `/state-summary`.

use km_mesos_proto::{json, resources::Resources, v1};
use serde_json::{Map, Value, json};

use super::{
    super::{Master, agent::Agent, event::seconds, snapshot::AGENT_CAPABILITIES},
    amounts_of, full, in_old_words, merge, ranges_text, reserved_of,
};

impl Master {
    pub(super) fn slaves_page(&self, id: Option<&String>) -> Value {
        json!({ "slaves": self.slaves(id), "recovered_slaves": self.recovered_slaves() })
    }

    pub(super) fn slaves(&self, id: Option<&String>) -> Vec<Value> {
        let wanted = |agent: &&Agent| id.is_none_or(|id| agent.id == *id);
        self.agents.values().filter(wanted).map(|agent| self.slave(agent)).collect()
    }

    pub(super) fn recovered_slaves(&self) -> Vec<Value> {
        self.recovered.values().map(|record| slave_info(&record.info)).collect()
    }

    fn slave(&self, agent: &Agent) -> Value {
        let used = agent.all_used();
        let offered = self.offered_on(agent).unallocated();
        let mut slave = slave_info(&agent.info);
        let capabilities: Vec<&str> = AGENT_CAPABILITIES.iter().map(|kind| kind.as_str_name()).collect();
        merge(
            &mut slave,
            json!({
                "id": agent.id,
                "pid": agent.pid(),
                "registered_time": seconds(agent.registered),
                "active": agent.offerable(),
                "deactivated": agent.deactivated,
                "version": agent.version,
                "capabilities": capabilities,
                "resources": amounts_of(&agent.total, true),
                "used_resources": amounts_of(&used, true),
                "offered_resources": amounts_of(&offered, true),
                "reserved_resources": reserved_of(&agent.total),
                "unreserved_resources": amounts_of(&agent.total.unreserved(), true),
                "used_resources_full": full(&used),
                "offered_resources_full": full(&offered),
                "reserved_resources_full": reserved_full(&agent.total),
                "unreserved_resources_full": full(&agent.total.unreserved()),
            }),
        );
        if let Some(time) = agent.reregistered {
            merge(&mut slave, json!({ "reregistered_time": seconds(time) }));
        }
        merge(&mut slave, drain_of(agent));
        slave
    }

    /// Counters instead of lists of tasks.
    pub(super) fn summary_page(&self) -> Value {
        let states_on = |agent: &Agent| {
            let tasks = self.frameworks.values().flat_map(|framework| framework.tasks.values().map(|task| &task.info));
            Self::count_states(tasks.filter(|task| task.agent_id.value == agent.id))
        };
        let slaves = self.agents.values().map(|agent| {
            let mut slave = self.slave(agent);
            let frameworks: Vec<&String> = agent.used.keys().collect();
            merge(&mut slave, json!({ "framework_ids": frameworks }));
            merge(&mut slave, json!(states_on(agent)));
            slave
        });
        let frameworks = self.frameworks.values().map(|framework| {
            let live = framework.tasks.values().map(|task| &task.info);
            let all = live.chain(framework.unreachable_tasks.values()).chain(&framework.completed_tasks);
            let mut page = json!({
                "id": framework.id,
                "name": framework.info.name,
                "capabilities": super::frameworks::capabilities(&framework.info),
                "hostname": framework.info.hostname.clone().unwrap_or_default(),
                "webui_url": framework.info.webui_url.clone().unwrap_or_default(),
                "active": framework.connected(),
                "connected": framework.connected(),
                "recovered": framework.recovered,
                "used_resources": amounts_of(&self.used_by(&framework.id).unallocated(), true),
                "offered_resources": amounts_of(&self.offered_to(framework).unallocated(), true),
                "slave_ids": self.agents_of_framework(&framework.id),
            });
            merge(&mut page, json!(Self::count_states(all)));
            page
        });
        json!({
            "hostname": self.config.info.hostname,
            "cluster": self.config.cluster,
            "slaves": slaves.collect::<Vec<_>>(),
            "frameworks": frameworks.collect::<Vec<_>>(),
        })
    }
}

fn drain_of(agent: &Agent) -> Value {
    let Some(drain) = &agent.drain else { return json!({}) };
    json!({
        "drain_info": json::to_value(drain),
        "estimated_drain_start_time_seconds": agent.drain_start.map(seconds),
    })
}

fn slave_info(info: &v1::AgentInfo) -> Value {
    let resources = Resources::from_protos(&info.resources).unwrap_or_default();
    let mut page = json!({
        "id": info.id.as_ref().map(|id| id.value.clone()),
        "hostname": info.hostname,
        "port": info.port.unwrap_or(5051),
        "attributes": attributes(&info.attributes),
        "resources": amounts_of(&resources, true),
    });
    if let Some(domain) = &info.domain {
        merge(&mut page, json!({ "domain": json::to_value(domain) }));
    }
    page
}

fn attributes(all: &[v1::Attribute]) -> Value {
    let mut page = Map::new();
    for one in all {
        let value = match (&one.scalar, &one.ranges, &one.set, &one.text) {
            (Some(scalar), ..) => json!(scalar.value),
            (_, Some(ranges), ..) => {
                let texts = ranges.range.iter().map(|range| format!("{}-{}", range.begin, range.end));
                json!(format!("[{}]", texts.collect::<Vec<_>>().join(", ")))
            }
            (.., Some(set), _) => json!(format!("{{{}}}", set.item.join(", "))),
            (.., text) => json!(text.as_ref().map(|text| text.value.clone()).unwrap_or_default()),
        };
        page.insert(one.name.clone(), value);
    }
    Value::Object(page)
}

fn reserved_full(total: &Resources) -> Value {
    let by_role = total.reservations().into_iter();
    Value::Object(by_role.map(|(role, part)| (role.to_owned(), in_old_words(full(&part)))).collect())
}

/// Ports of resources as text, for pages of tasks.
pub(super) fn ports_text(resources: &Resources) -> String {
    ranges_text(resources, "ports")
}
