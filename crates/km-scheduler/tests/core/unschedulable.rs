//! Pods that fit nowhere, for now.

use k8s_openapi::api::core::v1::Taint;
use km_scheduler::core::{Action, EventKind};

use crate::{
    SECOND, messages,
    world::{World, spec},
};

#[test]
fn a_pod_that_fits_nowhere_says_why() {
    let mut world = World::new(2);
    world.run(SECOND);
    world.create("big", spec("64", "64Mi", None));
    world.create("port", spec("100m", "64Mi", Some(80)));
    world.run(SECOND * 5);
    let said = messages(&world, EventKind::FailedScheduling);
    assert_eq!(
        said,
        [
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
             2 Preemption is not helpful for scheduling. The pod needs cpu 64, but the largest agent has 4.",
            "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports. preemption: \
             0/2 nodes are available: 2 No preemption victims found for incoming pod. \
             No agent offers host port 80; agents offer ports 31000-31009.",
        ]
    );
    let conditions =
        world.count(|action| matches!(action, Action::PatchPodStatus { reason, .. } if reason == "Unschedulable"));
    assert_eq!(conditions, 2);
    world.run(SECOND * 300);
    assert_eq!(messages(&world, EventKind::FailedScheduling).len(), 2, "the same is not said again");
}

#[test]
fn without_agents_a_pod_is_unschedulable_and_runs_when_one_comes() {
    let mut world = World::new(0);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    assert_eq!(messages(&world, EventKind::FailedScheduling), ["no nodes available to schedule pods"]);
    world.mesos.add_agent("agent1", "host1", 4000, 4096);
    world.run(SECOND * 2);
    assert!(world.is_running(&pod));
}

#[test]
fn an_unschedulable_pod_runs_when_another_makes_room() {
    let mut world = World::new(1);
    let first = world.create("first", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    let second = world.create("second", spec("3", "64Mi", None));
    world.run(SECOND * 10);
    assert!(!world.is_running(&second));
    world.api.delete(&first);
    world.run(SECOND * 3);
    assert!(world.is_running(&second));
    assert_eq!(world.live_tasks(), 1);
}

#[test]
fn unschedulable_pods_do_not_hold_offers_for_ever() {
    let mut world = World::new(1);
    world.create("big", spec("64", "64Mi", None));
    world.run(SECOND * 10);
    assert!(world.mesos.offers.is_empty(), "offers go to others after their time");
}

#[test]
fn a_taint_keeps_pods_out_until_it_is_gone() {
    let mut world = World::new(1);
    world.run(SECOND);
    let taint = Taint { key: "k".into(), effect: "NoSchedule".into(), ..Taint::default() };
    world.api.patch_node("host1", &serde_json::json!({ "spec": { "taints": [taint] } })).expect("the node is there");
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    assert!(!world.is_running(&pod));
    world.api.patch_node("host1", &serde_json::json!({ "spec": { "taints": null } })).expect("the node is there");
    world.run(SECOND * 2);
    assert!(world.is_running(&pod));
}
