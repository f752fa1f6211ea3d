//! Agents that their operators want empty: maintenance and draining.

mod world;

use std::time::Duration;

use km_mesos_proto::v1::{self, DurationInfo, TimeInfo, Unavailability};
use km_podtask::PodKey;
use km_scheduler::core::{Action, AgentSeen, Event, Maintenance};
use world::{World, spec};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn window(start: Duration, length: Duration) -> Unavailability {
    let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).expect("it fits");
    Unavailability {
        start: TimeInfo { nanoseconds: nanoseconds(start) },
        duration: Some(DurationInfo { nanoseconds: nanoseconds(length) }),
    }
}

fn ask(world: &mut World, id: &str, agent: &str, unavailability: Unavailability) {
    world.mesos.planned.insert(agent.to_owned(), unavailability);
    let offer = v1::InverseOffer {
        id: id.into(),
        framework_id: "framework".into(),
        agent_id: Some(agent.into()),
        unavailability,
        ..v1::InverseOffer::default()
    };
    world.send(Event::InverseOffers(vec![offer]));
}

fn answers(world: &World) -> Vec<bool> {
    let answer = |action: &Action| match action {
        Action::AnswerInverse { accept, .. } => Some(*accept),
        _ => None,
    };
    world.log.iter().filter_map(answer).collect()
}

fn upkeep(world: &World, node: &str) -> Option<String> {
    world.api.taints(node).into_iter().find(|taint| taint.key == "k8s.mesosphere.io/upkeep")?.value
}

/// Two agents, and a pod on each.
fn two_pods() -> (World, [PodKey; 2]) {
    let mut world = World::new(2);
    let pods = ["a", "b"].map(|name| world.api.create(name, spec("3", "64Mi", None), Some("rs")));
    world.run(SECOND * 3);
    assert!(pods.iter().all(|pod| world.is_running(pod)));
    (world, pods)
}

fn on(world: &World, pods: &[PodKey; 2], node: &str) -> PodKey {
    pods.iter().find(|pod| world.node_of(pod).as_deref() == Some(node)).expect("one runs there").clone()
}

#[test]
fn a_machine_is_empty_before_its_maintenance_and_is_used_again_after_it() {
    let (mut world, pods) = two_pods();
    let pod = on(&world, &pods, "host1");
    let start = world.now + MINUTE * 30;
    ask(&mut world, "i1", "agent1", window(start, MINUTE * 30));
    world.run(MINUTE * 19);
    assert_eq!((answers(&world), upkeep(&world, "host1")), (vec![true], None));
    assert!(world.is_running(&pod), "there is time");

    world.run(MINUTE * 2);
    assert_eq!(upkeep(&world, "host1").as_deref(), Some("maintenance"));
    assert!(!world.api.pods.contains_key(&pod), "it was evicted");
    assert!(world.is_running(&on(&world, &pods, "host2")), "the other agent has none");
    let waiting = world.create("waiting", spec("3", "64Mi", None));
    world.run(MINUTE);
    assert!(!world.is_running(&waiting), "nothing new comes");

    world.run(MINUTE * 40);
    assert_eq!(upkeep(&world, "host1"), None);
    assert!(world.is_running(&waiting));
}

#[test]
fn a_disruption_budget_delays_the_eviction_and_declines_the_inverse_offer() {
    let (mut world, pods) = two_pods();
    let pod = on(&world, &pods, "host1");
    world.api.kept.push(pod.clone());
    let planned = window(world.now + MINUTE, MINUTE * 30);
    ask(&mut world, "i1", "agent1", planned);
    world.run(SECOND * 15);
    assert!(world.is_running(&pod));
    let tries = |world: &World| world.count(|action| matches!(action, Action::EvictPod { budgets: true, .. }));
    assert!((2..=4).contains(&tries(&world)), "{} tries in 15 s", tries(&world));
    ask(&mut world, "i2", "agent1", planned);
    world.api.kept.clear();
    world.run(SECOND * 6);
    assert!(!world.api.pods.contains_key(&pod));
    ask(&mut world, "i3", "agent1", planned);
    assert_eq!(answers(&world), [true, false, true]);
}

#[test]
fn a_maintenance_that_is_called_off_changes_nothing() {
    let (mut world, pods) = two_pods();
    let pod = on(&world, &pods, "host1");
    world.api.kept.push(pod.clone());
    let planned = window(world.now + MINUTE, MINUTE * 30);
    ask(&mut world, "i1", "agent1", planned);
    world.run(SECOND);
    assert_eq!(upkeep(&world, "host1").as_deref(), Some("maintenance"));
    world.mesos.planned.clear();
    world.send(Event::InverseRescinded("i1".into()));
    world.send(Event::InverseRescinded("unknown".into()));
    world.api.kept.clear();
    world.run(MINUTE);
    assert_eq!(upkeep(&world, "host1"), None);
    assert!(world.is_running(&pod));
}

#[test]
fn a_maintenance_that_was_agreed_to_and_is_called_off_changes_nothing() {
    let (mut world, pods) = two_pods();
    let pod = on(&world, &pods, "host1");
    // Agreed to, so that it is never rescinded; evictions begin ten minutes before it.
    let planned = window(world.now + MINUTE * 20, MINUTE * 30);
    ask(&mut world, "i1", "agent1", planned);
    let mut scheduled = world.mesos.seen();
    scheduled[0].maintenance = Maintenance::Planned(planned);
    world.send(Event::Agents(scheduled));
    world.run(MINUTE);
    world.mesos.planned.clear();
    let mut cleared = world.mesos.seen();
    cleared[0].maintenance = Maintenance::NotPlanned;
    world.send(Event::Agents(cleared));
    world.run(MINUTE * 30);
    assert_eq!(upkeep(&world, "host1"), None);
    assert!(world.is_running(&pod));
}

#[test]
fn a_maintenance_is_seen_in_the_schedule_too() {
    let (mut world, pods) = two_pods();
    let pod = on(&world, &pods, "host1");
    let mut scheduled = world.mesos.seen();
    scheduled[0].maintenance = Maintenance::Planned(window(world.now + MINUTE, MINUTE * 30));
    world.send(Event::Agents(scheduled));
    world.run(SECOND * 3);
    assert_eq!(upkeep(&world, "host1").as_deref(), Some("maintenance"));
    assert!(!world.api.pods.contains_key(&pod));
}

#[test]
fn a_draining_agent_is_emptied_and_a_deactivated_one_is_only_closed() {
    let (mut world, pods) = two_pods();
    let (first, second) = (on(&world, &pods, "host1"), on(&world, &pods, "host2"));
    let mut seen = world.mesos.seen();
    seen[0] = AgentSeen { draining: true, deactivated: true, ..seen[0].clone() };
    seen[1].deactivated = true;
    world.send(Event::Agents(seen));
    world.run(SECOND * 3);
    assert_eq!(upkeep(&world, "host1").as_deref(), Some("draining"));
    assert_eq!(upkeep(&world, "host2").as_deref(), Some("deactivated"));
    assert!(!world.api.pods.contains_key(&first));
    assert!(world.is_running(&second));
    // Reactivated.
    let seen = world.mesos.seen();
    world.send(Event::Agents(seen));
    world.run(SECOND * 3);
    assert_eq!((upkeep(&world, "host1"), upkeep(&world, "host2")), (None, None));
}

#[test]
fn the_executor_of_a_drained_agent_ends_once_its_pods_are_gone() {
    let (mut world, pods) = two_pods();
    on(&world, &pods, "host1");
    let agent = world.mesos.seen()[0].id.clone();
    let has_executor = |world: &World| world.mesos.agents[&agent].executor.is_some();
    assert!(has_executor(&world));
    let mut seen = world.mesos.seen();
    seen[0] = AgentSeen { draining: true, deactivated: true, ..seen[0].clone() };
    world.send(Event::Agents(seen));
    world.run(SECOND * 90);
    assert!(!has_executor(&world), "its pods are gone, and nobody waits for its own time to end");
}

/// One agent whose executor has nothing to do any more.
fn idle_executor() -> World {
    let mut world = World::new(1);
    let pod = world.create("first", spec("1", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&pod));
    world.api.delete(&pod);
    world.run(SECOND * 3);
    assert!(world.mesos.agents["agent1"].executor.is_some());
    world
}

#[test]
fn a_new_scheduler_ends_the_executor_of_an_agent_that_makes_no_offers() {
    let mut world = idle_executor();
    let mut seen = world.mesos.seen();
    seen[0] = AgentSeen { draining: true, deactivated: true, ..seen[0].clone() };
    world.mesos.agents.get_mut("agent1").expect("it was added").closed = true;
    world.restart();
    world.send(Event::Agents(seen));
    world.run(SECOND * 90);
    assert!(world.mesos.agents["agent1"].executor.is_none());
    let asked = world.count(|action| matches!(action, Action::Message { .. }));
    world.run(MINUTE * 10);
    assert_eq!(world.count(|action| matches!(action, Action::Message { .. })), asked, "it is known to have ended");
}

#[test]
fn an_agent_that_is_still_draining_takes_pods_once_its_idle_executor_has_ended() {
    let mut world = idle_executor();
    world.mesos.agents.get_mut("agent1").expect("it was added").refuses = true;
    let pod = world.create("second", spec("1", "64Mi", None));
    world.run(MINUTE);
    assert!(world.is_running(&pod));
}

#[test]
fn an_idle_executor_of_which_no_node_tells_ends_and_pods_run() {
    let mut world = idle_executor();
    world.api.delete_node("host1").expect("it is there");
    world.restart();
    let pod = world.create("second", spec("1", "64Mi", None));
    world.run(MINUTE);
    assert!(world.is_running(&pod), "{:?}", world.core.explain_page(world.now, &pod));
}

#[test]
fn pods_go_elsewhere_while_an_agent_is_still_draining() {
    let mut world = World::new(2);
    // The executor is of another framework, and nobody says when it ends.
    world.mesos.agents.get_mut("agent1").expect("it was added").refuses = true;
    let pods = ["a", "b", "c"].map(|name| world.create(name, spec("1", "64Mi", None)));
    world.run(SECOND * 20);
    let nodes = pods.each_ref().map(|pod| world.node_of(pod));
    assert!(nodes.iter().all(|node| node.as_deref() == Some("host2")), "{nodes:?}");
    let large = world.create("large", spec("3", "64Mi", None));
    world.run(MINUTE * 2);
    assert_eq!(world.node_of(&large), None);
    let why = world.core.explain_page(world.now, &large).expect("it waits").agents;
    assert!(why.iter().any(|line| line.why == "node(s) refused tasks as they were draining"), "{why:?}");
    world.mesos.agents.get_mut("agent1").expect("it was added").refuses = false;
    world.run(MINUTE * 2);
    assert_eq!(world.node_of(&large).as_deref(), Some("host1"));
}

#[test]
fn taints_of_users_stay() {
    let (mut world, _) = two_pods();
    let own = serde_json::json!([{ "key": "own", "effect": "NoSchedule" }]);
    world.api.patch_node("host1", &serde_json::json!({ "spec": { "taints": own } })).expect("the node is there");
    world.run(SECOND);
    let mut seen = world.mesos.seen();
    seen[0].deactivated = true;
    world.send(Event::Agents(seen));
    world.run(SECOND);
    let keys = |world: &World| world.api.taints("host1").into_iter().map(|taint| taint.key).collect::<Vec<_>>();
    assert_eq!(keys(&world), ["own", "k8s.mesosphere.io/upkeep"]);
    let seen = world.mesos.seen();
    world.send(Event::Agents(seen));
    world.run(SECOND);
    assert_eq!(keys(&world), ["own"]);
}

#[test]
fn fault_domains_become_topology_labels_and_gpus_keep_other_pods_off() {
    let mut world = World::new(1);
    let mut seen = world.mesos.seen();
    seen[0].domain = Some(("eu".into(), "eu-1".into()));
    let gpus = v1::Resource {
        name: "gpus".into(),
        scalar: Some(v1::value::Scalar { value: 2.0 }),
        ..seen[0].resources[0].clone()
    };
    seen[0].resources.push(gpus);
    world.send(Event::Agents(seen));
    world.run(SECOND * 2);
    let labels = world.api.nodes["host1"].metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels["topology.kubernetes.io/region"], "eu");
    assert_eq!(labels["topology.kubernetes.io/zone"], "eu-1");
    let pod = world.create("p", spec("1", "64Mi", None));
    world.run(SECOND * 5);
    assert!(!world.is_running(&pod));
    let said =
        world.log.iter().any(|action| matches!(action, Action::EmitEvent { message, .. } if message.contains("taint")));
    assert!(said, "the event says why");
}
