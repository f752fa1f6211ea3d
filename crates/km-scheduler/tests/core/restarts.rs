//! Schedulers that start again, and connections and masters that come back.

use std::time::Duration;

use km_podtask::PodKey;
use km_scheduler::core::{Action, Event};

use crate::{
    SECOND, is_accept,
    world::{World, spec},
};

#[test]
fn a_restarted_scheduler_takes_over_what_runs() {
    let mut world = World::new(2);
    let pods: Vec<PodKey> =
        (0..4).map(|number| world.api.create(&format!("p{number}"), spec("250m", "64Mi", None), Some("rs"))).collect();
    world.run(SECOND * 3);
    world.restart();
    let more: Vec<PodKey> =
        (4..8).map(|number| world.api.create(&format!("p{number}"), spec("250m", "64Mi", None), Some("rs"))).collect();
    world.run(SECOND * 30);
    assert!(pods.iter().chain(&more).all(|pod| world.is_running(pod)));
    assert_eq!(world.live_tasks(), 8);
    assert_eq!(world.count(|action| matches!(action, Action::Kill { .. } | Action::DeletePod { .. })), 0);
}

#[test]
fn a_launch_that_was_not_bound_when_the_scheduler_restarted_is_adopted() {
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    while world.live_tasks() == 0 {
        world.mesos.allocate(world.now);
        while world.deliver_one(0) {}
        world.now += Duration::from_millis(5);
        world.send(Event::Tick);
    }
    world.restart();
    world.run(SECOND * 30);
    assert!(world.is_running(&pod));
    assert_eq!(world.count(is_accept), 1, "it is not launched again");
}

#[test]
fn pods_deleted_while_no_scheduler_listened_are_killed() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    let other = world.create("other", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.api.remove(&pod);
    world.restart();
    world.run(SECOND * 60);
    assert_eq!(world.live_tasks(), 1);
    assert!(world.is_running(&other));
}

#[test]
fn annotated_pods_that_were_never_launched_survive_a_restart() {
    let mut world = World::new(0);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.api.edit(&pod, |pod| {
        pod.metadata.annotations = Some([("k8s.mesosphere.io/roles".to_owned(), "*".to_owned())].into());
    });
    world.restart();
    world.mesos.add_agent("agent1", "host1", 4000, 4096);
    world.run(SECOND * 5);
    assert!(world.is_running(&pod));
}

#[test]
fn an_accept_without_answer_leads_to_one_run_whether_it_arrived_or_not() {
    for arrives in [true, false] {
        let mut world = World::new(1);
        world.run(SECOND);
        world.in_doubt = Some(arrives);
        let pod = world.create("p", spec("1", "64Mi", None));
        world.run(SECOND * 60);
        assert!(world.is_running(&pod), "arrives: {arrives}");
        assert_eq!(world.live_tasks(), 1);
    }
}

#[test]
fn a_broken_connection_costs_nothing() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.disconnect();
    let later = world.create("later", spec("1", "64Mi", None));
    world.run(SECOND * 30);
    assert!(world.core.offer_lines(world.now).is_empty());
    world.subscribe();
    world.run(SECOND * 5);
    assert!(world.is_running(&pod) && world.is_running(&later));
}

#[test]
fn a_master_that_forgot_everything_is_not_believed_at_once() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.disconnect();
    let agent = world.mesos.agents.remove("agent1").expect("it is there");
    world.subscribe();
    world.run(SECOND * 120);
    assert!(world.api.pods.contains_key(&pod), "the agent may still come back");
    world.mesos.agents.insert("agent1".into(), agent);
    world.run(SECOND * 120);
    assert!(world.is_running(&pod));
    // Never back: believed after the grace period.
    world.mesos.agents.remove("agent1");
    world.disconnect();
    world.subscribe();
    world.run(world.config.unknown_grace + SECOND * 600);
    assert!(!world.api.pods.contains_key(&pod));
}

#[test]
fn a_removed_framework_loses_only_what_mesos_killed() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.disconnect();
    let agent = world.mesos.agents.get_mut("agent1").expect("it is there");
    agent.tasks.clear();
    agent.executor = None;
    world.send(Event::FrameworkRemoved);
    assert_eq!(world.count(|action| *action == Action::ForgetFramework), 1);
    world.subscribe();
    world.run(SECOND * 60);
    assert!(!world.api.pods.contains_key(&pod), "its controller makes a new one");
    let next = world.create("next", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    assert!(world.is_running(&next));
}
