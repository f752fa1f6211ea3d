//! Faults that people met with frameworks on Mesos, each as a behaviour. `docs/FIELD-CASES.md` lists them.

mod world;

use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;
use km_mesos_proto::v1::{
    self, TaskState, TaskStatus,
    task_status::{Reason, Source},
};
use km_podtask::PodKey;
use km_scheduler::core::{Action, Event, EventKind};
use world::{World, spec};

const SECOND: Duration = Duration::from_secs(1);

fn status(task: &str, state: TaskState, source: Source, reason: Reason) -> TaskStatus {
    TaskStatus {
        task_id: task.into(),
        state: state as i32,
        source: Some(source as i32),
        reason: Some(reason as i32),
        ..TaskStatus::default()
    }
}

fn send(world: &mut World, status: TaskStatus) {
    world.send(Event::Update(Box::new(status)));
}

/// Task and agent of the only task.
fn task_of(world: &World) -> (String, String) {
    let lines = world.core.task_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    (lines[0].id.clone(), lines[0].agent.clone())
}

/// Lets time pass without any executor doing its work, until a task is launched.
fn launch_only(world: &mut World) -> (String, String) {
    for _ in 0..1000 {
        if world.live_tasks() > 0 {
            return task_of(world);
        }
        world.mesos.allocate(world.now);
        while world.deliver_one(0) {}
        world.now += Duration::from_millis(5);
        world.send(Event::Tick);
    }
    panic!("nothing is launched");
}

/// The task vanishes from Mesos without a word.
fn vanish(world: &mut World, agent: &str, task: &str) {
    world.mesos.agents.get_mut(agent).expect("the agent is there").tasks.remove(task);
}

fn kills(world: &World, task: &str) -> usize {
    world.count(|action| matches!(action, Action::Kill { task_id, .. } if task_id == task))
}

fn acknowledgements(world: &World) -> usize {
    world.count(|action| matches!(action, Action::Acknowledge { .. }))
}

fn revives(world: &World) -> usize {
    world.count(|action| matches!(action, Action::Revive))
}

#[test]
fn a_launch_that_fails_before_the_binding_is_tried_again_under_another_id() {
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    let (first, agent) = launch_only(&mut world);
    world.mesos.executor_dies(&agent);
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    let (second, _) = task_of(&world);
    assert_ne!(first, second);
}

#[test]
fn a_launch_that_the_master_refuses_leaves_no_bound_pod_and_no_task() {
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    let (task, agent) = launch_only(&mut world);
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
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    launch_only(&mut world);
    world.api.remove(&pod);
    world.run(SECOND * 30);
    assert_eq!((world.live_tasks(), world.api.pods.len()), (0, 0));
    assert!(world.core.task_lines().is_empty());
}

#[test]
fn a_kill_of_a_task_that_nobody_knows_ends_the_deletion_without_an_acknowledgement() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    let (task, agent) = task_of(&world);
    vanish(&mut world, &agent, &task);
    world.api.delete(&pod);
    world.run(SECOND);
    let before = acknowledgements(&world);
    // A master's word: no uuid, no agent id.
    send(&mut world, status(&task, TaskState::TaskLost, Source::Master, Reason::Reconciliation));
    world.run(SECOND * 3);
    assert_eq!(acknowledgements(&world), before);
    assert!(world.api.pods.is_empty() && world.core.task_lines().is_empty());
    let next = world.create("next", spec("3", "64Mi", None));
    world.run(SECOND * 5);
    assert!(world.is_running(&next), "its resources are free");
}

#[test]
fn a_node_whose_idle_executor_ended_stays_ready_and_takes_pods() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    world.api.delete(&pod);
    world.run(SECOND * 3);
    world.mesos.executor_dies("agent1");
    world.run(SECOND * 60);
    assert_eq!(world.api.ready("host1").as_deref(), Some("True"));
    assert!(world.api.taints("host1").is_empty());
    let next = world.create("next", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&next));
}

#[test]
fn pods_of_a_removed_agent_are_replaced_by_whatever_word_mesos_has_for_it() {
    for (state, reason) in [
        (TaskState::TaskLost, Reason::AgentRemoved),
        (TaskState::TaskGone, Reason::AgentRemoved),
        (TaskState::TaskGoneByOperator, Reason::AgentRemovedByOperator),
        (TaskState::TaskDropped, Reason::AgentDisconnected),
    ] {
        let mut world = World::new(1);
        let pod = world.create("p", spec("1", "64Mi", None));
        world.run(SECOND * 3);
        let (task, agent) = task_of(&world);
        world.mesos.agents.remove(&agent);
        world.mesos.add_agent("agent2", "host2", 4000, 4096);
        world.send(Event::Failure { agent_id: Some(agent), executor_id: None });
        send(&mut world, status(&task, state, Source::Master, reason));
        world.run(SECOND * 3);
        assert!(!world.api.pods.contains_key(&pod), "{state:?}");
        let replacement = world.create("replacement", spec("1", "64Mi", None));
        world.run(SECOND * 3);
        assert_eq!(world.node_of(&replacement).as_deref(), Some("host2"));
    }
}

#[test]
fn an_agent_that_goes_without_a_word_is_found_out_by_reconciliation() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let (task, agent) = task_of(&world);
    vanish(&mut world, &agent, &task);
    world.run(SECOND * 2);
    assert!(world.api.pods.contains_key(&pod));
    world.send(Event::Request(km_scheduler::core::Request::Explicit));
    // One reconciliation follows another after a pause of 15 s.
    world.run(SECOND * 20);
    assert!(!world.api.pods.contains_key(&pod));
}

#[test]
fn a_new_pod_after_a_long_rest_asks_for_offers_at_once_and_many_pods_ask_seldom() {
    let mut world = World::new(2);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND * 600);
    assert!(world.mesos.is_suppressed() && world.mesos.offers.is_empty());
    let before = revives(&world);
    let pod = world.create("p", spec("100m", "32Mi", None));
    world.run(Duration::from_millis(500));
    assert!(world.is_running(&pod));
    assert_eq!(revives(&world), before + 1);
    world.run(SECOND * 600);
    let before = revives(&world);
    for number in 0..50 {
        world.create(&format!("many{number}"), spec("50m", "32Mi", None));
        world.run(Duration::from_millis(20));
    }
    world.run(SECOND);
    // Two seconds, ten of them a second at most.
    assert!(revives(&world) - before <= 20, "{} revives", revives(&world) - before);
}

#[test]
fn an_idle_framework_gets_no_offers_and_keeps_what_is_left_of_a_used_one_away() {
    let mut world = World::new(5);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND * 60);
    let declines = |world: &World| world.count(|action| matches!(action, Action::Decline { .. }));
    let before = declines(&world);
    world.run(SECOND * 600);
    assert_eq!(declines(&world), before);
    world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    let refused: Vec<Duration> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::Accept { refuse, .. } | Action::Decline { refuse, .. } => Some(*refuse),
            _ => None,
        })
        .collect();
    assert!(refused.iter().all(|refuse| *refuse >= SECOND * 120), "{refused:?}");
}

#[test]
fn an_unschedulable_pod_revives_no_more_often_than_its_back_off() {
    let mut world = World::new(1);
    world.create("big", spec("64", "64Mi", None));
    world.run(SECOND * 60);
    let before = revives(&world);
    world.run(SECOND * 600);
    let count = revives(&world) - before;
    assert!((5..=24).contains(&count), "{count} revives in 10 minutes");
}

#[test]
fn a_new_subscription_while_idle_is_suppressed_again() {
    let mut world = World::new(1);
    world.send(Event::Agents(world.mesos.seen()));
    world.run(SECOND * 10);
    world.disconnect();
    world.subscribe();
    assert!(!world.mesos.is_suppressed());
    world.run(SECOND * 10);
    assert!(world.mesos.is_suppressed());
}

#[test]
fn rescinded_offers_known_unknown_or_already_used_cost_nothing() {
    let mut world = World::new(1);
    world.run(Duration::from_millis(10));
    world.send(Event::Rescinded("unknown".into()));
    let held = world.core.offer_lines(world.now).first().map(|offer| offer.id.clone());
    if let Some(id) = held {
        world.mesos.offers.remove(&id);
        world.send(Event::Rescinded(id.as_str().into()));
    }
    world.run(SECOND);
    // Used while it is being rescinded: the master drops the launch.
    let pod = world.create("p", spec("1", "64Mi", None));
    let (task, agent) = launch_only(&mut world);
    let used = world.log.iter().find_map(|action| match action {
        Action::Accept { offers, .. } => Some(offers[0].clone()),
        _ => None,
    });
    vanish(&mut world, &agent, &task);
    world.mesos.agents.get_mut(&agent).expect("it is there").executor = None;
    world.send(Event::Rescinded(used.expect("an offer was used")));
    send(&mut world, status(&task, TaskState::TaskLost, Source::Master, Reason::InvalidOffers));
    world.run(SECOND * 10);
    assert!(world.is_running(&pod));
    assert_eq!(world.live_tasks(), 1);
}

#[test]
fn a_pod_deleted_while_the_master_is_away_is_killed_when_it_is_back() {
    let mut world = World::new(1);
    let pods = [world.create("graceful", spec("1", "64Mi", None)), world.create("forced", spec("1", "64Mi", None))];
    world.run(SECOND * 3);
    world.disconnect();
    world.api.remove(&pods[0]);
    world.api.remove(&pods[1]);
    world.run(SECOND * 120);
    assert_eq!(world.live_tasks(), 2);
    world.subscribe();
    world.run(SECOND * 5);
    assert_eq!(world.live_tasks(), 0);
}

#[test]
fn a_kill_that_gets_lost_is_sent_again_until_the_task_has_ended() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let (task, agent) = task_of(&world);
    // The agent doesn't hear anything.
    world.mesos.agents.get_mut(&agent).expect("it is there").connected = false;
    world.api.remove(&pod);
    world.run(SECOND * 300);
    assert!(kills(&world, &task) >= 5 && world.live_tasks() == 1);
    world.mesos.agents.get_mut(&agent).expect("it is there").connected = true;
    world.run(SECOND * 61);
    assert_eq!(world.live_tasks(), 0);
}

#[test]
fn a_running_task_without_a_pod_is_killed_by_the_next_scheduler() {
    let mut world = World::new(1);
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    let (task, _) = task_of(&world);
    world.disconnect();
    world.api.remove(&pod);
    world.restart();
    world.run(SECOND * 60);
    assert!(kills(&world, &task) >= 1);
    assert_eq!(world.live_tasks(), 0);
}

#[test]
fn a_launch_of_which_nothing_is_heard_is_asked_for_and_launched_anew() {
    for answer in [TaskState::TaskUnknown, TaskState::TaskDropped] {
        let mut world = World::new(1);
        world.run(SECOND * 2);
        let pod = world.create("p", spec("1", "64Mi", None));
        let (first, agent) = launch_only(&mut world);
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
    let mut world = World::new(1);
    world.run(SECOND);
    let pod = world.create("p", spec("1", "64Mi", None));
    let (first, agent) = launch_only(&mut world);
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
    let mut world = World::new(1);
    world.run(SECOND);
    let pod: PodKey = world.create("p", spec("1", "64Mi", None));
    let (task, agent) = launch_only(&mut world);
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
