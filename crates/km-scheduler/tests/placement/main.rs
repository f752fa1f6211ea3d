//! Placement rules as they show from outside of the core: gates, preemption, rules about other pods, constraints.

mod extended;
mod spreading;
mod taken_ports;
mod volumes;
#[path = "../world/mod.rs"]
mod world;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Affinity, Pod, PodSpec};
use km_podtask::PodKey;
use km_scheduler::core::{Action, Event, EventKind};
use serde_json::json;
use world::{World, spec};

const SECOND: Duration = Duration::from_secs(1);

fn events(world: &World, wanted: EventKind) -> Vec<String> {
    let message = |action: &Action| match action {
        Action::EmitEvent { kind, message, .. } if *kind == wanted => Some(message.clone()),
        _ => None,
    };
    world.log.iter().filter_map(message).collect()
}

/// A pod of one CPU that keeps away from (or near) pods with a label.
fn with_affinity(kind: &str, key: &str, app: &str) -> PodSpec {
    let term = json!([{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } }]);
    let affinity = json!({ kind: { "requiredDuringSchedulingIgnoredDuringExecution": term } });
    let affinity: Affinity = serde_json::from_value(affinity).expect("an affinity");
    PodSpec { affinity: Some(affinity), ..spec("1", "64Mi", None) }
}

fn labelled(app: &str) -> impl Fn(&mut Pod) + '_ {
    move |pod| pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into())
}

fn annotated(key: &str, value: &str) -> impl Fn(&mut Pod) {
    let annotations = [(format!("k8s.mesosphere.io/{key}"), value.to_owned())];
    move |pod| pod.metadata.annotations = Some(annotations.clone().into())
}

fn evictions(world: &World) -> Vec<&PodKey> {
    let victim = |action: &'_ Action| matches!(action, Action::PreemptPod { .. });
    let evictions = world.log.iter().filter(|action| victim(action));
    evictions.filter_map(|action| if let Action::PreemptPod { pod, .. } = action { Some(pod) } else { None }).collect()
}

#[test]
fn a_more_important_pod_takes_the_place_of_another() {
    let mut world = World::new(1);
    let low = world.create("low", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    assert!(world.is_running(&low));
    let boss = world.create("boss", PodSpec { priority: Some(100), ..spec("3", "64Mi", None) });
    world.run(SECOND * 10);
    assert!(world.is_running(&boss), "{:?}", world.log);
    assert!(!world.api.pods.contains_key(&low));
    assert_eq!(evictions(&world), [&low], "one victim, deleted once");
    let nominations: Vec<_> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::NominatePod { pod, node, .. } => Some((pod.clone(), node.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(nominations, [(boss, Some("host1".to_owned()))]);
    assert_eq!(events(&world, EventKind::Preempted).len(), 1);
}

#[test]
fn room_that_was_made_is_kept_for_whom_it_was_made() {
    let mut world = World::new(1);
    let low = world.create("low", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    // Smaller and less important, it would fit first.
    world.create("boss", PodSpec { priority: Some(100), ..spec("3", "64Mi", None) });
    world.create("later", spec("2", "64Mi", None));
    world.run(SECOND * 20);
    assert!(world.is_running(&PodKey::new("default", "boss")));
    assert!(!world.is_running(&PodKey::new("default", "later")));
    assert!(!world.api.pods.contains_key(&low));
}

#[test]
fn a_pod_that_may_not_preempt_waits() {
    let mut world = World::new(1);
    let low = world.create("low", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    let never = Some("Never".to_owned());
    world.create("boss", PodSpec { priority: Some(1), preemption_policy: never, ..spec("3", "64Mi", None) });
    world.run(SECOND * 20);
    assert!(world.is_running(&low) && evictions(&world).is_empty());
    let said = events(&world, EventKind::FailedScheduling);
    assert_eq!(
        said,
        ["0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."]
    );
}

#[test]
fn a_restarted_scheduler_remembers_for_whom_room_is_made() {
    let mut world = World::new(1);
    let low = world.create("low", spec("3", "64Mi", None));
    world.run(SECOND * 3);
    let boss = world.create("boss", PodSpec { priority: Some(100), ..spec("3", "64Mi", None) });
    while evictions(&world).is_empty() {
        world.run(Duration::from_millis(100));
    }
    world.restart();
    world.run(SECOND * 20);
    assert!(world.is_running(&boss));
    assert_eq!(evictions(&world), [&low]);
}

#[test]
fn gates_hold_a_pod_back_without_an_event() {
    let mut world = World::new(1);
    let gates = serde_json::from_value(json!([{ "name": "example.com/quota" }])).expect("gates");
    let pod = world.create("gated", PodSpec { scheduling_gates: Some(gates), ..spec("1", "64Mi", None) });
    world.run(SECOND * 10);
    assert!(!world.is_running(&pod));
    let said: Vec<&str> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::PatchPodStatus { reason, message, .. } if reason == "SchedulingGated" => Some(message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["Scheduling is blocked due to non-empty scheduling gates"]);
    assert!(events(&world, EventKind::FailedScheduling).is_empty());
    world.api.edit(&pod, |pod| pod.spec.as_mut().expect("a spec").scheduling_gates = None);
    world.run(SECOND * 3);
    assert!(world.is_running(&pod));
}

/// The API server has no claims.
#[test]
fn a_pod_that_names_a_claim_is_told_that_there_is_none() {
    let mut world = World::new(1);
    let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    let volumes = serde_json::from_value(volume).expect("volumes");
    let pod = world.create("p", PodSpec { volumes: Some(volumes), ..spec("1", "64Mi", None) });
    world.run(SECOND * 10);
    assert!(!world.is_running(&pod));
    let text = "0/1 nodes are available: persistentvolumeclaim \"data\" not found. \
                preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(events(&world, EventKind::FailedScheduling), [text]);
}

#[test]
fn a_wish_that_cannot_be_understood_is_told_once() {
    let mut world = World::new(1);
    let wrong = annotated("constraints", "[[\"hostname\",\"NEAR\"]]");
    let pod = world.api.create_as("p", spec("1", "64Mi", None), wrong);
    world.run(SECOND * 30);
    let said = events(&world, EventKind::FailedScheduling);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("k8s.mesosphere.io/constraints") && said[0].contains("UNIQUE"), "{said:?}");
    world.api.edit(&pod, annotated("constraints", "[[\"hostname\",\"UNIQUE\"]]"));
    world.run(SECOND * 3);
    assert!(world.is_running(&pod));
}

#[test]
fn unique_hosts_are_for_the_pods_of_one_owner() {
    let mut world = World::new(2);
    let unique = |owner: &'static str| {
        move |pod: &mut Pod| {
            annotated("constraints", "[[\"hostname\",\"UNIQUE\"]]")(pod);
            let owner = json!([{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true }]);
            pod.metadata.owner_references = Some(serde_json::from_value(owner).expect("an owner"));
        }
    };
    let mut make = |name: &str, owner| world.api.create_as(name, spec("500m", "64Mi", None), unique(owner));
    let pods = [make("a1", "a"), make("a2", "a"), make("a3", "a"), make("b1", "b"), make("b2", "b")];
    world.run(SECOND * 10);
    let running: Vec<bool> = pods.iter().map(|pod| world.is_running(pod)).collect();
    assert_eq!(running.iter().filter(|runs| **runs).count(), 4, "{running:?}");
    assert_ne!(world.node_of(&pods[3]), world.node_of(&pods[4]));
    let said = events(&world, EventKind::FailedScheduling).join("\n");
    assert!(said.contains("2 node(s) didn't satisfy constraint [hostname, UNIQUE]"), "{said}");
}

#[test]
fn anti_affinity_keeps_pods_on_different_agents() {
    let mut world = World::new(2);
    let apart = || with_affinity("podAntiAffinity", "kubernetes.io/hostname", "web");
    let pods: Vec<PodKey> =
        (0..3).map(|number| world.api.create_as(&format!("p{number}"), apart(), labelled("web"))).collect();
    world.run(SECOND * 10);
    assert_ne!(world.node_of(&pods[0]), world.node_of(&pods[1]));
    assert_eq!(pods.iter().filter(|pod| world.is_running(pod)).count(), 2);
    assert_eq!(
        events(&world, EventKind::FailedScheduling),
        ["0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: \
          0/2 nodes are available: 2 No preemption victims found for incoming pod."]
    );
    let first = pods.iter().find(|pod| world.is_running(pod)).expect("two run").clone();
    world.api.delete(&first);
    world.run(SECOND * 10);
    assert_eq!(world.live_tasks(), 2, "the third takes the place that is free now");
}

#[test]
fn pods_of_other_schedulers_count() {
    let mut world = World::new(1);
    world.run(SECOND);
    let mut foreign = with_affinity("podAntiAffinity", "kubernetes.io/hostname", "web");
    foreign.scheduler_name = Some("other".into());
    foreign.node_name = Some("host1".into());
    let foreign = world.api.create_as("foreign", foreign, |_| {});
    let pod = world.api.create_as("p", spec("1", "64Mi", None), labelled("web"));
    world.run(SECOND * 10);
    assert!(!world.is_running(&pod), "a pod that we didn't place repels it");
    world.api.remove(&foreign);
    world.run(SECOND * 4);
    assert!(world.is_running(&pod));
}

#[test]
fn a_pod_follows_another_that_changes_its_labels() {
    let mut world = World::new(2);
    let first = world.api.create_as("first", spec("1", "64Mi", None), labelled("other"));
    world.run(SECOND * 3);
    let near = with_affinity("podAffinity", "kubernetes.io/hostname", "web");
    let follower = world.api.create_as("follower", near, |_| {});
    world.run(SECOND * 5);
    assert!(!world.is_running(&follower));
    world.api.edit(&first, labelled("web"));
    world.run(SECOND * 4);
    assert!(world.is_running(&follower));
    assert_eq!(world.node_of(&follower), world.node_of(&first));
}

#[test]
fn affinity_may_be_to_namespaces_by_their_labels() {
    let mut world = World::new(2);
    world.api.create_as("first", spec("1", "64Mi", None), |pod| {
        labelled("web")(pod);
        pod.metadata.namespace = Some("garden".into());
    });
    world.run(SECOND * 3);
    let mut near = with_affinity("podAffinity", "kubernetes.io/hostname", "web");
    let affinity = near.affinity.as_mut().and_then(|affinity| affinity.pod_affinity.as_mut()).expect("set above");
    let terms = affinity.required_during_scheduling_ignored_during_execution.as_mut().expect("set above");
    let selector = json!({ "matchLabels": { "team": "fern" } });
    terms[0].namespace_selector = Some(serde_json::from_value(selector).expect("a selector"));
    let follower = world.api.create_as("follower", near, |_| {});
    world.run(SECOND * 5);
    assert!(!world.is_running(&follower));
    let labels = [("team".to_owned(), "fern".to_owned())].into();
    world.send(Event::Namespace { name: "garden".into(), labels });
    world.run(SECOND * 5);
    assert!(world.is_running(&follower));
}

#[test]
fn a_pod_may_become_more_important_while_it_waits() {
    let mut world = World::new(1);
    let first = world.create("first", spec("4", "64Mi", None));
    let second = world.create("second", spec("3", "64Mi", None));
    world.run(SECOND * 5);
    // Neither of "first" nor "second" beside each other; "first" doesn't fit beside the executor at all.
    assert!(!world.is_running(&first) && world.is_running(&second));
    world.api.edit(&first, |pod| {
        let spec = pod.spec.as_mut().expect("a spec");
        spec.priority = Some(10);
        let requests = spec.containers[0].resources.as_mut().and_then(|all| all.requests.as_mut()).expect("set");
        requests.insert("cpu".to_owned(), serde_json::from_value(json!("3")).expect("a quantity"));
    });
    world.run(SECOND * 10);
    assert!(world.is_running(&first));
    assert_eq!(evictions(&world), [&second]);
}
