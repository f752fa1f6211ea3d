//! A change of the executor's configuration: agents go on with what they have, and get the new one in time.

mod world;

use std::time::Duration;

use km_scheduler::core::{Action, Config, EventKind};
use world::{World, config, spec};

const SECOND: Duration = Duration::from_secs(1);
const OLD: &str = "old_k8sm-executor";

fn old() -> Config {
    let mut old = config();
    old.executor.executor_id.value = OLD.into();
    old.executor.name = Some("old".into());
    old
}

/// The executor that runs on an agent.
fn running(world: &World, agent: &str) -> Option<String> {
    world.mesos.agents[agent].executor.as_ref().map(|executor| executor.executor_id.value.clone())
}

/// A pod on each of two agents under the old configuration, then a scheduler of the new one.
fn changed(former_is_known: bool) -> World {
    let mut world = World::with_config(2, old());
    for name in ["a", "b"] {
        world.api.create(name, spec("2", "64Mi", None), Some("rs"));
    }
    world.run(SECOND * 3);
    assert_eq!(world.live_tasks(), 2);
    world.config = config();
    if former_is_known {
        world.config.former_executors = vec![old().executor];
    }
    world.restart();
    world.run(SECOND * 3);
    world
}

#[test]
fn new_pods_join_the_executor_that_runs_whatever_its_configuration() {
    let mut world = changed(true);
    let pods = ["c", "d"].map(|name| world.create(name, spec("1", "64Mi", None)));
    world.run(SECOND * 5);
    assert!(pods.iter().all(|pod| world.is_running(pod)), "no agent is refused");
    assert!(["agent1", "agent2"].iter().all(|agent| running(&world, agent).as_deref() == Some(OLD)));
    let lines = world.core.executor_lines();
    assert!(lines.len() == 2 && lines.iter().all(|line| !line.current && line.executor.as_deref() == Some(OLD)));
}

#[test]
fn an_idle_executor_of_an_earlier_configuration_is_ended_at_once_and_the_next_pod_brings_the_new_one() {
    let mut world = changed(true);
    for key in world.api.pods.keys().cloned().collect::<Vec<_>>() {
        world.api.delete(&key);
    }
    world.run(SECOND * 5);
    assert_eq!((running(&world, "agent1"), running(&world, "agent2")), (None, None));
    let pod = world.create("next", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    assert!(world.is_running(&pod));
    let ours = config().executor.executor_id.value;
    let hosts = ["agent1", "agent2"].map(|agent| running(&world, agent));
    assert!(hosts.contains(&Some(ours.clone())), "{hosts:?}");
    let host = world.node_of(&pod).expect("it runs");
    let annotations = world.api.nodes[&host].metadata.annotations.clone().unwrap_or_default();
    assert_eq!(annotations["k8s.mesosphere.io/executorId"], ours);
    assert!(world.core.executor_lines().iter().all(|line| line.current));
}

#[test]
fn an_executor_with_pods_is_never_asked_to_end() {
    let mut world = changed(true);
    world.run(SECOND * 60);
    assert_eq!(world.count(|action| matches!(action, Action::Message { .. })), 0);
    assert_eq!(world.live_tasks(), 2);
}

#[test]
fn an_executor_that_nobody_remembers_is_left_alone_until_its_pods_are_gone() {
    let mut world = changed(false);
    let next = world.create("next", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    assert!(!world.is_running(&next));
    let said = world.log.iter().any(|action| {
        matches!(action, Action::EmitEvent { kind: EventKind::FailedScheduling, message, .. }
            if message.contains("2 node(s) ran an executor of another configuration"))
    });
    assert!(said);
    for name in ["a", "b"] {
        world.api.delete(&km_podtask::PodKey::new("default", name));
    }
    world.run(SECOND * 30);
    assert!(world.is_running(&next));
}
