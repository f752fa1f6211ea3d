//! Agents that can't be reached: how long their pods wait, and what happens when they come back.

mod world;

use std::time::Duration;

use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use km_mesos_proto::v1::TaskState;
use km_scheduler::core::{Action, Config, EventKind};
use world::{World, config, spec};

const SECOND: Duration = Duration::from_secs(1);

/// A pod that waits for an unreachable node for ever.
fn patient() -> PodSpec {
    let toleration = Toleration { operator: Some("Exists".into()), ..Toleration::default() };
    PodSpec { tolerations: Some(vec![toleration]), ..spec("1", "64Mi", None) }
}

fn effects(world: &World) -> Vec<String> {
    let taints = world.api.taints("host1").into_iter();
    taints.filter(|taint| taint.key == "node.kubernetes.io/unreachable").map(|taint| taint.effect).collect()
}

#[test]
fn pods_stay_on_an_unreachable_agent_for_as_long_as_they_tolerate_it() {
    let mut world = World::new(1);
    let default = world.create("default", spec("1", "64Mi", None));
    let patient = world.create("patient", patient());
    world.run(SECOND * 3);
    world.mesos.partition("agent1");
    world.run(SECOND * 295);
    assert_eq!(world.api.ready("host1").as_deref(), Some("Unknown"));
    assert_eq!(effects(&world), ["NoExecute", "NoSchedule"]);
    assert!(world.api.taints("host1")[0].time_added.is_some());
    assert!(world.api.pods.contains_key(&default) && world.api.pods.contains_key(&patient));

    world.run(SECOND * 10);
    assert!(!world.api.pods.contains_key(&default), "its 300 s are over");
    world.run(SECOND * 2000);
    assert!(world.api.pods.contains_key(&patient));
    let evictions = world.count(|action| matches!(action, Action::EmitEvent { kind: EventKind::Eviction, .. }));
    assert_eq!(evictions, 1);

    world.mesos.heal("agent1");
    world.run(SECOND * 70);
    assert_eq!(world.api.ready("host1").as_deref(), Some("True"));
    assert!(effects(&world).is_empty());
    assert!(world.is_running(&patient));
    assert_eq!(world.live_tasks(), 1, "the task of the pod that is gone was killed");
}

#[test]
fn an_agent_that_is_back_in_time_keeps_all_its_pods() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    for _ in 0..3 {
        world.mesos.partition("agent1");
        world.run(SECOND * 200);
        world.mesos.heal("agent1");
        world.run(SECOND * 3);
        assert!(world.is_running(&pod) && effects(&world).is_empty());
    }
    assert_eq!(world.count(|action| matches!(action, Action::EvictPod { .. })), 0);
}

#[test]
fn an_agent_that_came_back_unheard_keeps_its_pods() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.mesos.partition("agent1");
    world.run(SECOND * 3);
    assert!(!effects(&world).is_empty());
    world.disconnect();
    world.mesos.heal("agent1");
    // Longer than the pod tolerates, with nobody to say that the agent is there.
    world.run(SECOND * 400);
    assert!(world.is_running(&pod));
    world.subscribe();
    world.run(SECOND * 10);
    assert!(world.is_running(&pod) && effects(&world).is_empty());
    assert_eq!(world.count(|action| matches!(action, Action::EvictPod { .. })), 0);
}

#[test]
fn a_scheduler_that_starts_during_a_partition_counts_from_its_beginning() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.mesos.partition("agent1");
    world.run(SECOND * 200);
    world.restart();
    world.run(SECOND * 90);
    assert!(world.api.pods.contains_key(&pod));
    assert_eq!(effects(&world), ["NoExecute", "NoSchedule"]);
    world.run(SECOND * 20);
    assert!(!world.api.pods.contains_key(&pod));
}

#[test]
fn a_pod_without_toleration_leaves_an_unreachable_agent_at_once() {
    let mut world = World::new(1);
    let pod = world.create("p", PodSpec { tolerations: Some(Vec::new()), ..spec("1", "64Mi", None) });
    world.run(SECOND * 3);
    world.mesos.partition("agent1");
    world.run(SECOND * 3);
    assert!(!world.api.pods.contains_key(&pod));
}

#[test]
fn a_pod_whose_deletion_nobody_confirms_leaves_once_its_agent_is_unreachable() {
    // No reconciliation asks in between: Mesos would not have missed the agent yet.
    let mut world = World::with_config(2, Config { second_implicit: SECOND * 300, ..config() });
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let agent = format!("agent{}", &world.node_of(&pod).expect("it runs")[4..]);
    world.mesos.agents.get_mut(&agent).expect("it is there").connected = false;
    world.api.delete(&pod);
    world.run(SECOND * 20);
    assert!(world.api.pods.contains_key(&pod), "nothing is proved");
    world.mesos.agents.get_mut(&agent).expect("it is there").connected = true;
    world.mesos.partition(&agent);
    world.run(SECOND * 2);
    assert!(!world.api.pods.contains_key(&pod));
    // Another one of the same name runs elsewhere, and the first never comes to life again.
    let again = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&again));
    world.mesos.heal(&agent);
    world.run(SECOND * 70);
    assert!(world.is_running(&again));
    assert_eq!(world.live_tasks(), 1);
}

#[test]
fn a_deleted_pod_of_a_stateful_set_waits_for_proof() {
    let mut world = World::new(1);
    let pod = world.api.create("db-0", spec("1", "64Mi", None), Some("set"));
    world.api.edit(&pod, |stored| {
        stored.metadata.owner_references.as_mut().expect("it has an owner")[0].kind = "StatefulSet".into();
    });
    world.run(SECOND * 3);
    world.mesos.partition("agent1");
    world.run(SECOND);
    world.api.delete(&pod);
    world.run(SECOND * 1000);
    assert!(world.api.pods.contains_key(&pod), "it may still run");
    world.mesos.mark_gone("agent1");
    world.run(SECOND * 400);
    assert!(!world.api.pods.contains_key(&pod));
}

#[test]
fn an_agent_that_reboots_under_a_new_id_is_the_same_node_without_its_old_pods() {
    let mut world = World::new(1);
    let old = world.create("old", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.mesos.partition("agent1");
    world.run(SECOND * 20);
    world.mesos.agents.remove("agent1");
    world.mesos.add_agent("agent9", "host1", 4000, 4096);
    world.run(SECOND * 3);
    assert!(!world.api.pods.contains_key(&old), "its task can't come back");
    let node = &world.api.nodes["host1"];
    let annotations = node.metadata.annotations.as_ref().expect("it has some");
    assert_eq!(annotations["k8s.mesosphere.io/slaveId"], "agent9");
    assert_eq!(world.api.ready("host1").as_deref(), Some("True"));
    assert!(effects(&world).is_empty());
    let new = world.create("new", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&new));
    assert!(world.core.task_lines().iter().all(|task| task.agent == "agent9"));
}

#[test]
fn two_agents_of_one_name_do_not_end_each_others_pods() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.mesos.add_agent("agent9", "host1", 4000, 4096);
    world.run(SECOND * 30);
    assert!(world.is_running(&pod), "the first one is not lost");
    assert_eq!(world.mesos.agents["agent1"].tasks.values().next().map(|task| task.state), Some(TaskState::TaskRunning));
}
