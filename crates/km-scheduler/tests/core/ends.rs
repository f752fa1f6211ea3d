//! Pods, tasks, executors and agents that end.

use std::time::Duration;

use km_mesos_proto::v1::TaskState;
use km_podtask::PodKey;
use km_scheduler::core::{Action, Event, EventKind};

use crate::{
    SECOND, messages,
    world::{World, spec},
};

#[test]
fn a_deleted_pod_is_killed_whether_it_was_bound_or_not() {
    let mut world = World::new(1);
    let bound = world.create("bound", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.api.delete(&bound);
    world.run(SECOND);
    assert_eq!((world.live_tasks(), world.api.pods.len()), (0, 0));
    // Launched, and deleted before the executor could bind it.
    let unbound = world.create("unbound", spec("1", "64Mi", None));
    while world.live_tasks() == 0 {
        world.mesos.allocate(world.now);
        while world.deliver_one(0) {}
        world.now += Duration::from_millis(5);
        world.send(Event::Tick);
    }
    world.api.delete(&unbound);
    world.run(SECOND * 20);
    assert_eq!(world.live_tasks(), 0);
    assert!(world.core.task_lines().is_empty(), "{:?}", world.core.task_lines());
}

#[test]
fn a_gone_agent_takes_its_pods_and_then_its_node() {
    let mut world = World::new(2);
    let pods: Vec<PodKey> =
        (0..4).map(|number| world.api.create(&format!("p{number}"), spec("250m", "64Mi", None), Some("rs"))).collect();
    world.run(SECOND * 3);
    world.mesos.mark_gone("agent1");
    world.run(SECOND * 5);
    assert_eq!(pods.iter().filter(|pod| world.api.pods.contains_key(pod)).count(), 2);
    assert_eq!(messages(&world, EventKind::TaskLost).len(), 2);
    assert!(world.api.nodes.contains_key("host1"));
    world.run(world.config.node_grace * 2);
    assert!(!world.api.nodes.contains_key("host1") && world.api.nodes.contains_key("host2"));
}

#[test]
fn a_dead_executor_takes_its_pods_and_is_started_anew() {
    let mut world = World::new(1);
    let old = world.create("old", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.mesos.executor_dies("agent1");
    world.run(SECOND * 3);
    assert!(!world.api.pods.contains_key(&old));
    let new = world.create("new", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&new));
}

#[test]
fn pods_that_end_by_themselves_stay() {
    let mut world = World::new(1);
    let pods = [world.create("good", spec("1", "64Mi", None)), world.create("bad", spec("1", "64Mi", None))];
    world.run(SECOND * 3);
    world.mesos.finish(&mut world.api, 0, TaskState::TaskFinished, "Succeeded");
    world.run(SECOND);
    world.mesos.finish(&mut world.api, 0, TaskState::TaskFailed, "Failed");
    world.run(SECOND * 30);
    assert!(pods.iter().all(|pod| world.api.pods.contains_key(pod)));
    assert!(world.mesos.agents["agent1"].tasks.is_empty(), "their ends are acknowledged");
}

#[test]
fn updates_wait_for_the_api_server() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.api.down = true;
    world.mesos.executor_dies("agent1");
    world.run(SECOND * 30);
    assert_eq!(world.mesos.agents["agent1"].tasks.len(), 1, "not acknowledged yet");
    world.api.down = false;
    world.run(SECOND * 30);
    assert!(!world.api.pods.contains_key(&pod) && world.mesos.agents["agent1"].tasks.is_empty());
}

#[test]
fn a_second_word_about_a_tasks_end_waits_for_what_follows_from_the_first() {
    use km_mesos_proto::v1::{TaskStatus, task_status::Source};
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let task = world.core.task_lines()[0].id.clone();
    let acknowledgements = |world: &World| world.count(|action| matches!(action, Action::Acknowledge { .. }));
    let before = acknowledgements(&world);
    // The master tells it first, when the agent comes back; then the agent itself.
    let failed = |uuid: Option<Vec<u8>>| TaskStatus {
        task_id: task.as_str().into(),
        agent_id: Some("agent1".into()),
        state: TaskState::TaskFailed as i32,
        source: Some(Source::Agent as i32),
        uuid,
        ..TaskStatus::default()
    };
    world.mesos.agents.get_mut("agent1").expect("it is there").tasks.clear();
    world.api.down = true;
    world.send(Event::Update(Box::new(failed(None))));
    world.send(Event::Update(Box::new(failed(Some(vec![1; 16])))));
    world.run(SECOND * 5);
    assert_eq!(acknowledgements(&world), before);
    world.api.down = false;
    world.run(SECOND * 5);
    assert_eq!(acknowledgements(&world), before + 1);
    assert!(!world.api.pods.contains_key(&pod));
}

/// The old pod's task was taken over from its last annotations after it had ended, and held the name of the new one.
#[test]
fn a_pod_that_comes_while_its_namesakes_task_has_not_ended_is_let_in_after_it() {
    let mut world = World::new(1);
    world.run(SECOND);
    let key = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let old = std::sync::Arc::clone(&world.api.pods[&key]);
    let task = km_fakeapi::task_of(&old).expect("it is bound");
    world.mesos.kill(&mut world.api, &task, None);
    world.run(SECOND);
    world.disconnect();
    world.send(Event::PodApplied(std::sync::Arc::clone(&old)));
    world.send(Event::PodDeleted(old));
    world.create("p", spec("1", "64Mi", None));
    world.run(SECOND);
    world.subscribe();
    world.run(SECOND * 60);
    assert!(world.is_running(&key));
}
