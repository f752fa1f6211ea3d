//! Pods that find a place at once.

use std::time::Duration;

use km_podtask::PodKey;
use km_scheduler::core::{Action, EventKind};

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
