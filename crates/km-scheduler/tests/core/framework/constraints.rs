//! Agents that no offers are wanted of.

use k8s_openapi::api::core::v1::Node;
use km_mesos_proto::{json as mesos, v1};
use km_offers::DeclineReason;
use km_scheduler::core::{Action, AgentSeen, Event, Framework};
use serde_json::{Value, json};

use super::{FrameworkAnswer, SECOND, Stage, framework};

/// Wants agents of that rack.
fn on_rack(rack: &str) -> Framework {
    let only = json!([{
        "selector": { "attribute_name": "rack" }, "predicate": { "text_equals": { "value": rack } },
    }]);
    let constraints = json!({ "role_constraints": { "*": { "groups": [{ "attribute_constraints": only }] } } });
    Framework { constraints: mesos::from_value(&constraints).expect("constraints"), ..framework(&["*"], rack) }
}

fn rack(name: &str) -> Vec<v1::Attribute> {
    km_mesos_proto::resources::attributes::parse(&format!("rack:{name}")).expect("an attribute")
}

fn agent(id: &str, rack_name: &str) -> AgentSeen {
    let (hostname, attributes) = (format!("host-of-{id}"), rack(rack_name));
    AgentSeen { id: id.to_owned(), hostname, attributes, active: true, ..AgentSeen::default() }
}

fn offer(id: &str, agent: &str, rack_name: &str) -> Event {
    let offer = v1::Offer {
        id: id.into(),
        agent_id: agent.into(),
        hostname: format!("host-of-{agent}"),
        attributes: rack(rack_name),
        ..v1::Offer::default()
    };
    Event::Offers(vec![offer])
}

fn nodes(stage: &Stage) -> Vec<String> {
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    let created = |action: &Action| match action {
        Action::CreateNode { node, .. } => Some(name(node)),
        _ => None,
    };
    stage.actions.iter().filter_map(created).collect()
}

/// The values of the taint that nodes were given, by node.
fn upkeep(stage: &Stage) -> Vec<(String, Option<Value>)> {
    let patched = |action: &Action| match action {
        Action::PatchNode { name, patch, status: false, .. } => {
            let taints = patch.pointer("/spec/taints")?.as_array()?;
            let upkeep = taints.iter().find(|taint| taint["key"] == "k8s.mesosphere.io/upkeep");
            Some((name.clone(), upkeep.map(|taint| taint["value"].clone())))
        }
        _ => None,
    };
    stage.actions.iter().filter_map(patched).collect()
}

/// Mesos judges when it makes offers: those that are out, and those of masters that know no constraints, are judged here.
#[test]
fn offers_of_agents_that_are_not_wanted_go_back() {
    for updates in [true, false] {
        let mut stage = Stage::new(on_rack("r1"), updates);
        stage.tell(offer("o1", "a1", "r1"));
        stage.tell(offer("o2", "a2", "r2"));
        assert_eq!(stage.declined(DeclineReason::Unwanted), ["o2"]);
        assert_eq!(nodes(&stage), ["host-of-a1"]);
        stage.configure(&on_rack("r2"));
        assert_eq!(stage.declined(DeclineReason::Unwanted), ["o2", "o1"]);
        assert_eq!(stage.core.offers_page(stage.now).asked.told, updates);
    }
}

#[test]
fn agents_that_are_not_wanted_become_no_nodes_and_those_that_were_are_tainted() {
    let mut stage = Stage::new(on_rack("r1"), true);
    let agents = || Event::Agents(vec![agent("a1", "r1"), agent("a2", "r2")]);
    stage.tell(agents());
    assert_eq!(nodes(&stage), ["host-of-a1"]);
    assert_eq!(upkeep(&stage), []);
    stage.configure(&on_rack("r2"));
    stage.answer(FrameworkAnswer::Accepted);
    stage.tell(agents());
    stage.run(SECOND);
    assert_eq!(nodes(&stage), ["host-of-a1", "host-of-a2"]);
    assert_eq!(upkeep(&stage), [("host-of-a1".to_owned(), Some(json!("excluded")))]);
    assert_eq!(stage.count(|action| matches!(action, Action::DeleteNode { .. })), 0);
}

#[test]
fn what_is_asked_for_is_shown_role_by_role() {
    let mut stage = Stage::new(on_rack("r1"), true);
    let minimum = json!({ "min_allocatable_resources": { "quantities": [
        { "quantities": { "cpus": { "value": 0.5 }, "mem": { "value": 128.0 } } },
        { "quantities": { "cpus": { "value": 4.0 } } },
    ] } });
    let mut changed = on_rack("r2");
    changed.info.offer_filters.insert("*".to_owned(), mesos::from_value(&minimum).expect("a filter"));
    stage.configure(&changed);
    let asked = serde_json::to_value(stage.core.offers_page(stage.now).asked).expect("JSON");
    assert_eq!(asked["roles"], json!([{ "role": "*", "agents": "rack IS r2", "minima": "cpus:0.5;mem:128|cpus:4" }]));
    assert_eq!((&asked["told"], &asked["refused"]), (&json!(true), &json!(null)));
}
