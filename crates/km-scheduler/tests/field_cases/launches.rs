//! Launches that fail, get lost, or are told of twice.

use k8s_openapi::api::core::v1::PodSpec;
use km_mesos_proto::v1::{
    self, TaskState, TaskStatus,
    task_status::{Reason, Source},
};
use km_podtask::PodKey;
use km_scheduler::core::{Action, EventKind};

use crate::{
    SECOND, kills, launch_only, send, status, task_of, vanish,
    world::{World, spec},
};

/// One agent, a pod, and its task with its agent: launched, and nothing heard of it yet.
fn launched() -> (World, PodKey, String, String) {
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    let (task, agent) = launch_only(&mut world);
    (world, pod, task, agent)
}

#[test]
fn a_launch_that_fails_before_the_binding_is_tried_again_under_another_id() {
    let (mut world, pod, first, agent) = launched();
    world.mesos.executor_dies(&agent);
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    let (second, _) = task_of(&world);
    assert_ne!(first, second);
}

#[test]
fn a_launch_that_the_master_refuses_leaves_no_bound_pod_and_no_task() {
    let (mut world, pod, task, agent) = launched();
    vanish(&mut world, &agent, &task);
    world.mesos.agents.get_mut(&agent).expect("it is there").executor = None;
    send(&mut world, status(&task, TaskState::TaskError, Source::Master, Reason::TaskInvalid));
    assert_eq!(world.node_of(&pod), None, "the executor binds, so nothing was bound");
    world.run(SECOND * 10);
    assert!(world.is_running(&pod), "it is launched again after a pause");
    assert_eq!(world.live_tasks(), 1);
}

#[test]
fn a_refused_binding_ends_the_task_and_the_pod_is_launched_again() {
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.api.refuse_bindings = 1;
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    assert_eq!(world.live_tasks(), 1);
    let failed = world.log.iter().filter(|action| {
        matches!(action, Action::EmitEvent { kind: EventKind::FailedScheduling, message, .. }
            if message.contains("create-binding-failure"))
    });
    assert_eq!(failed.count(), 1);
}

#[test]
fn a_pod_deleted_between_launch_and_binding_leaves_no_task() {
    let (mut world, pod, ..) = launched();
    world.api.remove(&pod);
    world.run(SECOND * 30);
    assert_eq!((world.live_tasks(), world.api.pods.len()), (0, 0));
    assert!(world.core.task_lines().is_empty());
}

#[test]
fn a_launch_of_which_nothing_is_heard_is_asked_for_and_launched_anew() {
    for answer in [TaskState::TaskUnknown, TaskState::TaskDropped] {
        let (mut world, pod, first, agent) = launched();
        vanish(&mut world, &agent, &first);
        world.mesos.agents.get_mut(&agent).expect("it is there").executor = None;
        world.mesos.answers.insert(first.clone(), answer);
        world.run(SECOND * 400);
        let asked = world.count(
            |action| matches!(action, Action::Reconcile(tasks) if tasks.iter().any(|(task, on)| *task == first && *on == agent)),
        );
        assert!(asked >= 1, "{answer:?}");
        assert!(world.is_running(&pod), "{answer:?}");
        assert_ne!(task_of(&world).0, first);
    }
}

#[test]
fn late_words_about_an_earlier_attempt_do_not_touch_the_present_one() {
    let (mut world, pod, first, agent) = launched();
    world.mesos.executor_dies(&agent);
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    let (second, _) = task_of(&world);
    let uuid = vec![7; 16];
    let late = TaskStatus {
        uuid: Some(uuid.clone()),
        agent_id: Some(agent.as_str().into()),
        ..status(&first, TaskState::TaskFailed, Source::Executor, Reason::ExecutorTerminated)
    };
    send(&mut world, late);
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    assert_eq!(task_of(&world).0, second);
    assert_eq!(world.count(|action| matches!(action, Action::Acknowledge { uuid: other, .. } if *other == uuid)), 1);
    // Alive after all: it is killed, as the pod is the other's.
    let alive = TaskStatus {
        agent_id: Some(agent.as_str().into()),
        ..status(&first, TaskState::TaskRunning, Source::Master, Reason::Reconciliation)
    };
    send(&mut world, alive);
    world.run(SECOND);
    assert!(kills(&world, &first) >= 1 && kills(&world, &second) == 0);
    assert!(world.is_running(&pod));
}

#[test]
fn an_ended_pod_holds_neither_its_host_port_nor_its_agent() {
    let mut world = World::new(1);
    let on_port = |port| PodSpec { restart_policy: Some("Never".into()), ..spec("3", "64Mi", Some(port)) };
    let first = world.create("first", on_port(31_001));
    world.run(SECOND * 3);
    world.mesos.finish(&mut world.api, 0, TaskState::TaskFailed, "Failed");
    world.run(SECOND * 3);
    let second = world.create("second", on_port(31_001));
    world.run(SECOND * 5);
    assert!(world.api.pods.contains_key(&first), "it stays for its logs");
    assert!(world.is_running(&second));
}

#[test]
fn a_task_that_the_agent_lost_while_it_was_away_is_launched_anew() {
    let (mut world, pod, task, agent) = launched();
    world.mesos.partition(&agent);
    vanish(&mut world, &agent, &task);
    world.mesos.agents.get_mut(&agent).expect("it is there").executor = None;
    world.run(SECOND * 5);
    world.mesos.heal(&agent);
    let agent_id = Some(v1::AgentId::from(agent));
    send(
        &mut world,
        TaskStatus { agent_id, ..status(&task, TaskState::TaskDropped, Source::Master, Reason::AgentReregistered) },
    );
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    assert_ne!(task_of(&world).0, task);
}
