//! The scheduler's core in a small world, situation by situation.

mod world;

use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use km_mesos_proto::v1::TaskState;
use km_podtask::PodKey;
use km_scheduler::core::{Action, AgentSeen, Event, EventKind};
use world::{World, spec};

const SECOND: Duration = Duration::from_secs(1);

fn is_accept(action: &Action) -> bool {
    matches!(action, Action::Accept { .. })
}

fn messages(world: &World, wanted: EventKind) -> Vec<String> {
    world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::EmitEvent { kind, message, .. } if *kind == wanted => Some(message.clone()),
            _ => None,
        })
        .collect()
}

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
