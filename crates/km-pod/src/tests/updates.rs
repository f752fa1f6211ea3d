//! Updates of a pod while it runs.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use serde_json::{Value, from_value, json};

use super::world::World;
use crate::{Action, Event};

fn spec(policy: &str, resize_policy: &Value) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "x:1", "resizePolicy": resize_policy,
        "resources": resources("100m", "32Mi", "200m", "64Mi")}]})
}

fn resources(cpu: &str, memory: &str, cpu_limit: &str, memory_limit: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu_limit, "memory": memory_limit}})
}

fn held(spec: Value) -> World {
    let mut world = World::new(spec).holding(500, 64 << 20);
    world.send(Event::Start);
    world.settle();
    world
}

fn ask(world: &mut World, resources: &Value) {
    world.update(|pod| {
        container(pod).resources = from_value(resources.clone()).unwrap();
        pod.metadata.generation = Some(pod.metadata.generation.unwrap_or(1) + 1);
    });
}

fn container(pod: &mut Pod) -> &mut k8s_openapi::api::core::v1::Container {
    &mut pod.spec.as_mut().unwrap().containers[0]
}

fn shown(world: &World) -> Value {
    serde_json::to_value(world.container("c").resources.clone().unwrap()).unwrap()
}

fn has_condition(world: &World, kind: &str) -> bool {
    world.status.conditions.iter().flatten().any(|one| one.type_ == kind)
}

#[test]
fn a_new_image_restarts_the_container_at_once() {
    let mut world = held(spec("Never", &Value::Null));
    world.update(|pod| container(pod).image = Some("x:2".into()));
    assert_eq!(world.container("c").image, "x:1", "it still runs");
    world.ends("c", 143);
    world.settle();
    assert!(world.is_running("c"));
    assert_eq!((world.container("c").image.as_str(), world.container("c").restart_count), ("x:2", 1));
}

#[test]
fn an_image_that_changes_before_the_container_runs_is_not_missed() {
    // After so many answers the old image is being looked for (0), pulled (1), started (2).
    for answered in 0..3 {
        let mut spec = spec("Always", &Value::Null);
        spec["containers"][0]["imagePullPolicy"] = "Always".into();
        let mut world = World::new(spec);
        world.send(Event::Start);
        for _ in 0..2 + answered {
            world.answer(0, true);
        }
        world.update(|pod| container(pod).image = Some("x:2".into()));
        world.settle();
        if answered == 2 {
            world.ends("c", 143);
            world.settle();
        }
        assert!(world.is_running("c"), "{answered}");
        assert_eq!(world.container("c").image, "x:2", "{answered}");
    }
}

#[test]
fn another_image_ends_the_wait_for_one_that_cannot_be_had() {
    let mut spec = spec("Always", &Value::Null);
    spec["containers"][0]["imagePullPolicy"] = "Always".into();
    let mut world = World::new(spec);
    world.send(Event::Start);
    for _ in 0..3 {
        world.answer(0, true);
    }
    world.refuse();
    assert_eq!(world.waiting("c").0, "ErrImagePull");
    world.update(|pod| container(pod).image = Some("x:2".into()));
    world.settle();
    assert!(world.is_running("c"));
}

#[test]
fn what_the_task_holds_is_granted_in_place() {
    let mut world = held(spec("Always", &Value::Null));
    assert_eq!(shown(&world), resources("100m", "32Mi", "200m", "64Mi"));
    let more = resources("500m", "64Mi", "2", "1Gi");
    ask(&mut world, &more);
    let granted: ResourceRequirements = from_value(more.clone()).unwrap();
    let resize = Action::ResizeContainer { container: "c".into(), attempt: 0, resources: Box::new(granted.clone()) };
    assert_eq!(world.open, [resize]);
    assert!(has_condition(&world, "PodResizeInProgress"));
    assert_eq!(shown(&world), resources("100m", "32Mi", "200m", "64Mi"), "not yet");
    assert_eq!(world.container("c").allocated_resources, granted.requests);
    world.settle();
    assert_eq!(shown(&world), more);
    assert!(!has_condition(&world, "PodResizeInProgress") && !has_condition(&world, "PodResizePending"));
    assert_eq!(world.container("c").restart_count, 0);
    assert!(world.signals.is_empty() && world.is_running("c"));
}

#[test]
fn more_than_the_task_holds_is_infeasible_and_changes_nothing() {
    let mut world = held(spec("Always", &Value::Null));
    ask(&mut world, &resources("501m", "32Mi", "1", "64Mi"));
    assert!(world.open.is_empty(), "{:?}", world.open);
    let pending = world.condition("PodResizePending");
    assert_eq!((pending.status.as_str(), pending.reason.as_deref()), ("True", Some("Infeasible")));
    assert_eq!(pending.observed_generation, Some(2));
    let message = pending.message.unwrap();
    assert!(message.contains("holds cpu: 500m") && message.contains("cpu: 501m"), "{message}");
    assert_eq!(shown(&world), resources("100m", "32Mi", "200m", "64Mi"));
    assert_eq!(world.events.iter().filter(|(reason, _)| *reason == "ResizeInfeasible").count(), 1);
    // A restart keeps what was granted.
    world.ends("c", 1);
    world.settle();
    assert_eq!(shown(&world), resources("100m", "32Mi", "200m", "64Mi"));
    // Asking for less again takes the complaint back.
    ask(&mut world, &resources("100m", "32Mi", "200m", "64Mi"));
    assert!(!has_condition(&world, "PodResizePending"));
}

#[test]
fn a_resize_policy_may_want_a_restart() {
    let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"},
                        {"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    let mut world = held(spec("Never", &policy));
    ask(&mut world, &resources("200m", "32Mi", "200m", "64Mi"));
    world.settle();
    assert!(world.signals.is_empty(), "cpu alone needs none");
    ask(&mut world, &resources("200m", "48Mi", "200m", "64Mi"));
    assert_eq!(world.signals, [("c".to_owned(), 15)]);
    world.ends("c", 143);
    world.settle();
    assert!(world.is_running("c"));
    assert_eq!(world.container("c").restart_count, 1);
    assert_eq!(shown(&world), resources("200m", "48Mi", "200m", "64Mi"));
}

#[test]
fn a_resize_that_the_runtime_refuses_is_told_and_tried_again() {
    let mut world = held(spec("Always", &Value::Null));
    let less = resources("100m", "16Mi", "200m", "16Mi");
    ask(&mut world, &less);
    world.refuse();
    let condition = world.condition("PodResizeInProgress");
    assert_eq!((condition.reason.as_deref(), condition.message.as_deref()), (Some("Error"), Some("broken")));
    assert_eq!(world.pass().as_secs(), 10);
    world.settle();
    assert_eq!(shown(&world), less);
    assert!(!has_condition(&world, "PodResizeInProgress"));
}

#[test]
fn a_resize_during_the_start_follows_it() {
    let mut world = World::new(spec("Always", &Value::Null)).holding(500, 64 << 20);
    world.send(Event::Start);
    for _ in 0..3 {
        world.answer(0, true);
    }
    assert!(matches!(world.open.as_slice(), [Action::StartContainer { .. }]), "{:?}", world.open);
    let more = resources("300m", "32Mi", "400m", "64Mi");
    ask(&mut world, &more);
    assert_eq!(world.open.len(), 1, "not before it runs");
    world.settle();
    assert_eq!(shown(&world), more);
}

#[test]
fn labels_deadline_and_grace_follow_the_object() {
    let mut world = held(spec("Always", &Value::Null));
    world.update(|pod| {
        pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let spec = pod.spec.as_mut().unwrap();
        spec.termination_grace_period_seconds = Some(7);
        spec.active_deadline_seconds = Some(60);
    });
    assert_eq!(world.machine.pod().metadata.labels.as_ref().unwrap()["a"], "b");
    assert_eq!(world.machine.grace().as_secs(), 7);
    assert_eq!(world.pass().as_secs(), 60);
    assert_eq!(world.signals, [("c".to_owned(), 15)]);
    assert_eq!(world.pass().as_secs(), 7, "then it is killed");
}
