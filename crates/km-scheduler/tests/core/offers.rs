//! How many offers are wanted, and what agents and nodes are to each other.

use std::{sync::Arc, time::Duration};

use km_kube::keys;
use km_mesos_proto::v1;
use km_scheduler::core::{Action, AgentSeen, Config, Event, Framework};

use crate::{
    SECOND,
    world::{World, config, spec},
};

#[test]
fn idle_offers_go_back_for_long_and_no_more_are_wanted() {
    let mut world = World::new(2);
    world.send(Event::Agents(world.mesos.seen()));
    // Until after the second implicit reconciliation.
    world.run(SECOND * 20);
    let refused = world.log.iter().find_map(|action| match action {
        Action::Decline { refuse, .. } => Some(*refuse),
        _ => None,
    });
    assert_eq!(refused, Some(world.config.refuse));
    assert!(world.mesos.is_suppressed() && world.mesos.offers.is_empty());
    assert_eq!(world.count(|action| matches!(action, Action::Suppress)), 1);
    let calls = world.log.len();
    world.run(SECOND * 60);
    assert_eq!(world.log.len(), calls, "quiet stays quiet");
}

#[test]
fn without_the_operator_api_offers_must_keep_showing_new_agents() {
    let mut world = World::new(1);
    world.run(SECOND * 5);
    assert_eq!(world.count(|action| matches!(action, Action::Suppress)), 0);
    world.mesos.add_agent("agent9", "host9", 1000, 1024);
    world.run(SECOND * 2);
    assert!(world.api.nodes.contains_key("host9"));
}

#[test]
fn agents_that_offer_nothing_have_nodes_all_the_same() {
    let mut world = World::new(0);
    world.mesos.add_agent("agent1", "host1", 0, 0);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND);
    assert!(world.api.nodes.contains_key("host1"));
}

/// An offer of agent1 to a role, made before anything runs there.
fn early_offer(id: &str, role: &str) -> v1::Offer {
    let allocated = || Some(v1::resource::AllocationInfo { role: Some(role.to_owned()) });
    let scalar = |name: &str, value: f64| v1::Resource {
        name: name.to_owned(),
        r#type: v1::value::Type::Scalar as i32,
        scalar: Some(v1::value::Scalar { value }),
        allocation_info: allocated(),
        ..v1::Resource::default()
    };
    let ports = v1::Resource {
        r#type: v1::value::Type::Ranges as i32,
        scalar: None,
        ranges: Some(v1::value::Ranges { range: vec![v1::value::Range { begin: 31_000, end: 31_009 }] }),
        ..scalar("ports", 0.0)
    };
    v1::Offer {
        id: id.into(),
        agent_id: "agent1".into(),
        hostname: "host1".into(),
        resources: vec![scalar("cpus", 2.0), scalar("mem", 1024.0), ports],
        allocation_info: allocated(),
        ..v1::Offer::default()
    }
}

#[test]
fn an_offer_from_before_a_launch_does_not_change_the_executor() {
    offered_after_a_launch(&[]);
}

#[test]
fn late_word_of_an_executors_end_does_not_change_the_next() {
    let (agent_id, executor_id) = (Some("agent1".to_owned()), Some(config().executor.executor_id.value));
    offered_after_a_launch(&[Event::Failure { agent_id, executor_id }]);
}

/// What comes after a launch, and then an offer to another role that names no executor.
fn offered_after_a_launch(events: &[Event]) {
    let roles: Vec<String> = ["a", "b", "*"].map(str::to_owned).to_vec();
    let config = Config { framework: Arc::new(Framework::in_roles(roles.clone(), roles)), ..config() };
    let mut world = World::with_config(0, config);
    world.create("pod", spec("1", "64Mi", None));
    // It is not known what becomes of the launch.
    world.in_doubt = Some(false);
    world.send(Event::Offers(vec![early_offer("first", "a")]));
    world.run(SECOND);
    let executors = |world: &World| -> Vec<Option<v1::ExecutorInfo>> {
        let executor = |action: &Action| match action {
            Action::Accept { tasks, .. } => Some(tasks[0].executor.clone()),
            _ => None,
        };
        world.log.iter().filter_map(executor).collect()
    };
    let launched = executors(&world).remove(0);
    world.create("other", spec("1", "64Mi", None));
    world.connected = false;
    events.iter().for_each(|event| world.send(event.clone()));
    world.send(Event::Offers(vec![early_offer("second", "b")]));
    world.run(SECOND);
    assert_eq!(executors(&world), std::slice::from_ref(&launched), "none fits into the second offer");
    let noted =
        world.api.nodes["host1"].metadata.annotations.as_ref().and_then(|all| all.get(keys::EXECUTOR_RESOURCES));
    let launched = launched.expect("the pod was launched").resources;
    assert_eq!(noted, Some(&km_podtask::executor::encode_resources(&launched)));
}

#[test]
fn revives_are_never_closer_than_the_pause() {
    let mut world = World::new(1);
    world.run(SECOND * 5);
    for number in 0..30 {
        world.create(&format!("p{number}"), spec("10m", "32Mi", Some(31_000)));
        let before = world.count(|action| matches!(action, Action::Revive));
        world.run(Duration::from_millis(20));
        assert!(world.count(|action| matches!(action, Action::Revive)) <= before + 1);
    }
    let revives = world.count(|action| matches!(action, Action::Revive));
    assert!((1..=7).contains(&revives), "{revives} revives in 600 ms");
}

#[test]
fn attributes_become_labels_and_follow_the_agent() {
    let mut world = World::new(0);
    let attribute = |name: &str, text: &str| km_mesos_proto::v1::Attribute {
        name: name.into(),
        r#type: km_mesos_proto::v1::value::Type::Text as i32,
        text: Some(km_mesos_proto::v1::value::Text { value: text.into() }),
        ..Default::default()
    };
    let seen = |attributes| AgentSeen {
        id: "a".into(),
        hostname: "h".into(),
        attributes,
        active: true,
        ..AgentSeen::default()
    };
    world.send(Event::Agents(vec![seen(vec![attribute("rack", "r1"), attribute("bad", "no spaces allowed")])]));
    world.run(SECOND);
    let labels = |world: &World| world.api.nodes["h"].metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels(&world).get("k8s.mesosphere.io/attribute-rack").map(String::as_str), Some("r1"));
    assert!(!labels(&world).contains_key("k8s.mesosphere.io/attribute-bad"));
    world.send(Event::Agents(vec![seen(vec![attribute("zone", "z")])]));
    world.run(SECOND);
    assert!(!labels(&world).contains_key("k8s.mesosphere.io/attribute-rack"));
    assert_eq!(labels(&world).get("kubernetes.io/hostname").map(String::as_str), Some("h"));
}
