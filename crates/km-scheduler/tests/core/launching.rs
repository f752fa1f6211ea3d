//! Pods that find a place at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use km_kube::keys;
use km_podtask::PodKey;
use km_scheduler::core::{Action, Event, EventKind};

use crate::{
    SECOND, is_accept, messages,
    world::{World, spec},
};

#[test]
fn four_replicas_run_on_both_agents_with_one_accept_each() {
    let mut world = World::new(2);
    world.run(SECOND);
    let pods: Vec<PodKey> =
        (0..4).map(|number| world.api.create(&format!("p{number}"), spec("250m", "64Mi", None), Some("rs"))).collect();
    world.run(SECOND * 3);
    assert!(pods.iter().all(|pod| world.is_running(pod)));
    for node in ["host1", "host2"] {
        assert_eq!(pods.iter().filter(|pod| world.node_of(pod).as_deref() == Some(node)).count(), 2, "{node}");
        assert_eq!(world.api.ready(node).as_deref(), Some("True"));
    }
    assert_eq!(world.count(is_accept), 2);
    assert_eq!(messages(&world, EventKind::Scheduled).len(), 4);
}

#[test]
fn a_pod_starts_shortly_after_it_comes() {
    let mut world = World::new(1);
    world.run(SECOND * 10);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(Duration::from_millis(50));
    assert!(world.is_running(&pod), "{:?}", world.log);
}

#[test]
fn many_pods_share_an_accept() {
    let mut world = World::new(1);
    for number in 0..10 {
        world.create(&format!("p{number}"), spec("100m", "32Mi", None));
    }
    world.run(SECOND * 3);
    let launches: Vec<usize> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::Accept { tasks, .. } => Some(tasks.len()),
            _ => None,
        })
        .collect();
    assert_eq!(launches, [10]);
}

#[test]
fn pods_of_other_schedulers_and_gated_pods_are_left_alone() {
    let mut world = World::new(1);
    let mut foreign = spec("1", "64Mi", None);
    foreign.scheduler_name = Some("other".into());
    let mut gated = spec("1", "64Mi", None);
    gated.scheduling_gates =
        Some(vec![k8s_openapi::api::core::v1::PodSchedulingGate { name: "example.com/gate".into() }]);
    world.create("foreign", foreign);
    world.create("gated", gated);
    world.run(SECOND * 10);
    assert_eq!(world.count(is_accept), 0);
}

#[test]
fn pods_that_were_bound_before_their_node_was_known_take_their_place_on_it() {
    const PORT: i32 = 31_005;
    let mut world = World::new(1);
    let foreign = |name: &str, constraint: &str| {
        let spec = PodSpec {
            node_name: Some("host2".into()),
            scheduler_name: Some("other".into()),
            ..spec("100m", "64Mi", Some(PORT))
        };
        let metadata = ObjectMeta {
            namespace: Some("default".into()),
            name: Some(name.into()),
            uid: Some(format!("uid-{name}")),
            resource_version: Some("1".into()),
            annotations: Some(BTreeMap::from([(keys::CONSTRAINTS.to_owned(), constraint.to_owned())])),
            ..ObjectMeta::default()
        };
        Event::PodApplied(Arc::new(Pod { metadata, spec: Some(spec), ..Pod::default() }))
    };
    world.send(foreign("holds-the-port", "[]"));
    world.send(foreign("unreadable", "no constraint"));
    let first = world.create("first", spec("100m", "64Mi", Some(PORT)));
    world.run(SECOND * 3);
    assert_eq!(world.node_of(&first).as_deref(), Some("host1"));
    world.mesos.add_agent("agent2", "host2", 4000, 4096);
    let second = world.create("second", spec("100m", "64Mi", Some(PORT)));
    world.run(SECOND * 20);
    assert_eq!(world.node_of(&second), None, "the port is taken on both");
    let anywhere = world.create("anywhere", spec("3500m", "64Mi", None));
    let other = world.create("other", spec("3500m", "64Mi", None));
    world.run(SECOND * 20);
    let nodes = [&anywhere, &other].map(|pod| world.node_of(pod).unwrap());
    assert!(nodes.contains(&"host2".to_owned()), "{nodes:?}");
}
