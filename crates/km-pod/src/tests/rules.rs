//! The rules one by one.

use serde_json::{Value, json};

use super::world::World;
use crate::{Action, Event, Outcome, StartFailure, StopCause};

fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "x:1"}]})
}

#[test]
fn a_pod_runs_and_is_ready() {
    let world = World::running(one("Always"));
    assert_eq!(world.phase(), "Running");
    assert!(world.is_running("c"));
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"] {
        assert_eq!(world.condition(kind).status, "True", "{kind}");
    }
    let status = world.container("c");
    assert_eq!(status.container_id.as_deref(), Some("km://u-c-0"));
    assert_eq!((status.image_id.as_str(), status.ready, status.started), ("sha256:1", true, Some(true)));
    assert_eq!(world.status.pod_ip.as_deref(), Some("10.1.0.2"));
    assert_eq!(world.status.host_ip.as_deref(), Some("10.0.0.1"));
    for reason in ["Pulled", "Started"] {
        assert!(world.has_event(reason), "{reason}");
    }
}

#[test]
fn the_end_follows_policy_and_exit_code() {
    for (policy, code, outcome, phase, reason) in [
        ("Never", 0, Outcome::Succeeded, "Succeeded", "Completed"),
        ("OnFailure", 0, Outcome::Succeeded, "Succeeded", "Completed"),
        ("Never", 3, Outcome::Failed { message: "container c exited with code 3 (Error)".into() }, "Failed", "Error"),
    ] {
        let mut world = World::running(one(policy));
        world.ends("c", code);
        world.settle();
        assert_eq!(world.done, Some(outcome), "{policy} {code}");
        assert_eq!(world.phase(), phase);
        assert_eq!(world.terminated("c"), Some((code, reason.into())));
        assert_eq!(world.condition("Ready").status, "False");
    }
}

#[test]
fn crashes_back_off_from_ten_seconds_to_five_minutes() {
    let mut world = World::running(one("Always"));
    let mut delays = Vec::new();
    for round in 0..8 {
        world.ends("c", 1);
        if world.open.is_empty() {
            let (reason, message) = world.waiting("c");
            assert_eq!(reason, "CrashLoopBackOff");
            if round == 1 {
                assert_eq!(message, "back-off 10s restarting failed container=c pod=p_n(u)");
            }
            assert_eq!(world.phase(), "Running");
            delays.push(world.pass().as_secs());
        }
        world.settle();
        assert_eq!(world.container("c").restart_count, round + 1);
        let last = world.container("c").last_state.clone().unwrap().terminated.unwrap();
        assert_eq!(last.exit_code, 1);
    }
    assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
    let kept: Vec<u32> = world.removed.iter().map(|(_, attempt)| *attempt).collect();
    assert_eq!(kept, [0, 1, 2, 3, 4, 5, 6], "the previous attempt stays for its log");
    world.now += std::time::Duration::from_secs(601);
    world.ends("c", 1);
    assert!(!world.open.is_empty(), "a quiet time ends the back-off");
}

#[test]
fn a_pod_that_can_never_run_here_fails_before_it_starts_anything() {
    let mut world = World::new(json!({"containers": [{"name": "c", "image": "x:1"}]}));
    world.send(Event::Start);
    while !world.open.contains(&Action::RunSandbox) {
        world.answer(0, true);
    }
    world.send(Event::SandboxRefused { reason: "HostPortTaken", message: "port 80 is taken".into() });
    world.settle();
    assert_eq!((world.phase(), world.status.reason.as_deref()), ("Failed", Some("HostPortTaken")));
    let message = "HostPortTaken: port 80 is taken".to_owned();
    assert_eq!(world.done, Some(Outcome::Failed { message }));
}

#[test]
fn init_containers_run_in_order_and_their_failure_ends_the_pod() {
    let spec = json!({"restartPolicy": "Never", "initContainers": [{"name": "a", "image": "x:1"},
        {"name": "b", "image": "x:1"}], "containers": [{"name": "c", "image": "x:1"}]});
    let mut world = World::running(spec.clone());
    assert!(world.is_running("a"));
    assert_eq!(world.waiting("c").0, "PodInitializing");
    assert_eq!(world.condition("Initialized").message.as_deref(), Some("containers with incomplete status: [a b]"));
    world.ends("a", 0);
    world.settle();
    assert!(world.is_running("b") && world.container("a").ready);
    assert_eq!(world.phase(), "Pending");
    world.ends("b", 0);
    world.settle();
    assert!(world.is_running("c"));
    assert_eq!(world.phase(), "Running");

    let mut world = World::running(spec);
    world.ends("a", 1);
    world.settle();
    assert_eq!(world.phase(), "Failed");
    assert!(matches!(world.done, Some(Outcome::Failed { .. })));
}

#[test]
fn sidecars_start_before_and_end_after_the_main_containers() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "x:1"}],
        "initContainers": [{"name": "side", "image": "x:1", "restartPolicy": "Always",
            "startupProbe": {"tcpSocket": {"port": 80}}}]});
    let mut world = World::new(spec);
    world.send(Event::Start);
    for _ in 0..4 {
        world.answer(0, true);
    }
    assert!(world.is_running("side"));
    assert!(matches!(world.open.as_slice(), [Action::Probe { .. }]), "{:?}", world.open);
    assert_eq!(world.waiting("c").0, "PodInitializing", "the sidecar is not started before its probe says so");
    world.settle();
    assert!(world.is_running("c"));
    world.ends("side", 1);
    world.settle();
    assert!(world.is_running("side"), "a sidecar restarts even if the pod never does");
    world.ends("c", 0);
    assert_eq!(world.phase(), "Running");
    assert_eq!(world.signals, [("side".to_owned(), 15)]);
    world.ends("side", 143);
    world.settle();
    assert_eq!(world.done, Some(Outcome::Succeeded));
}

#[test]
fn deletion_terminates_then_kills() {
    let mut world = World::running(one("Always"));
    world.stop(StopCause::Deleted, 30);
    assert_eq!(world.signals, [("c".to_owned(), 15)]);
    assert!(!world.container("c").ready);
    world.stop(StopCause::Deleted, 10);
    assert_eq!(world.pass().as_secs(), 10, "a second deletion shortens the grace");
    assert_eq!(world.signals.last(), Some(&("c".to_owned(), 9)));
    world.ends("c", 137);
    assert_eq!(world.phase(), "Failed");
    assert!(world.done.is_none(), "the sandbox is still there");
    world.settle();
    assert_eq!(world.done, Some(Outcome::Stopped(StopCause::Deleted)));
}

#[test]
fn a_container_that_is_just_starting_is_stopped_too() {
    let mut world = World::new(one("Always"));
    world.send(Event::Start);
    for _ in 0..3 {
        world.answer(0, true);
    }
    assert!(matches!(world.open.as_slice(), [Action::StartContainer { .. }]), "{:?}", world.open);
    world.stop(StopCause::Killed, 30);
    assert!(world.signals.is_empty());
    world.settle();
    assert_eq!(world.signals, [("c".to_owned(), 15)]);
    world.ends("c", 0);
    world.settle();
    assert_eq!(world.done, Some(Outcome::Stopped(StopCause::Killed)));
}

#[test]
fn a_pod_stopped_before_anything_ran_says_so() {
    let mut world = World::new(one("Always"));
    world.send(Event::Start);
    world.stop(StopCause::Deleted, 30);
    world.settle();
    assert_eq!(world.phase(), "Failed");
    assert_eq!(world.terminated("c"), Some((137, "ContainerStatusUnknown".into())));
}

#[test]
fn images_follow_the_pull_policy() {
    let spec = |policy: &str| json!({"containers": [{"name": "c", "image": "x:1", "imagePullPolicy": policy}]});
    let image = |policy: &str, present: bool| {
        let mut world = World::new(spec(policy));
        world.send(Event::Start);
        world.answer(0, true);
        world.answer(0, true);
        world.answer(0, present);
        world
    };
    for (policy, present, pulls) in
        [("Always", true, true), ("Always", false, true), ("IfNotPresent", true, false), ("IfNotPresent", false, true)]
    {
        let world = image(policy, present);
        assert_eq!(matches!(world.open.as_slice(), [Action::PullImage { .. }]), pulls, "{policy} {present}");
    }
    let never = image("Never", false);
    assert_eq!(never.waiting("c").0, "ErrImageNeverPull");
}

#[test]
fn a_failed_pull_says_what_failed_and_backs_off() {
    let mut world = World::new(json!({"containers": [{"name": "c", "image": "x"}]}));
    world.send(Event::Start);
    for _ in 0..3 {
        world.answer(0, true);
    }
    world.refuse();
    assert_eq!(world.waiting("c"), ("ErrImagePull".into(), "broken".into()));
    world.pass();
    let message = "Back-off pulling image \"x\": ErrImagePull: broken";
    assert_eq!(world.waiting("c"), ("ImagePullBackOff".into(), message.into()));
    world.pass();
    assert_eq!(world.now.as_secs(), 10);
    // The next try doesn't take back what is known of the one before.
    assert_eq!(world.waiting("c"), ("ImagePullBackOff".into(), message.into()));
    world.answer(0, true);
    assert_eq!(world.waiting("c"), ("ImagePullBackOff".into(), message.into()));
    world.refuse();
    assert_eq!(world.waiting("c"), ("ErrImagePull".into(), "broken".into()));
    world.pass();
    world.pass();
    assert_eq!(world.now.as_secs(), 30);
    world.settle();
    assert!(world.is_running("c"));
}

#[test]
fn failed_starts_wait_or_count_as_runs() {
    let start = |policy: &str, failure: fn(&World) -> StartFailure| {
        let mut world = World::new(one(policy));
        world.send(Event::Start);
        for _ in 0..3 {
            world.answer(0, true);
        }
        world.open.clear();
        let failure = failure(&world);
        world.send(Event::StartFailed { container: "c".into(), attempt: 0, failure });
        world
    };
    let mut missing = start("Never", |_| StartFailure::Config("configmap \"m\" not found".into()));
    assert_eq!(missing.waiting("c"), ("CreateContainerConfigError".into(), "configmap \"m\" not found".into()));
    assert_eq!(missing.phase(), "Pending");
    missing.pass();
    assert_eq!(missing.waiting("c").0, "CreateContainerConfigError", "while the next try is under way");
    missing.settle();
    assert!(missing.is_running("c"));
    assert_eq!(missing.container("c").restart_count, 0);

    let cannot_run =
        |world: &World| StartFailure::Run(crate::Exit { reason: "ContainerCannotRun".into(), ..world.exit(128) });
    let mut never = start("Never", cannot_run);
    never.settle();
    assert_eq!(never.terminated("c"), Some((128, "StartError".into())));
    assert_eq!(never.phase(), "Failed");
}

#[test]
fn liveness_kills_and_readiness_only_hides() {
    let spec = json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "x:1",
        "livenessProbe": {"tcpSocket": {"port": 1}, "failureThreshold": 2},
        "readinessProbe": {"httpGet": {"port": 1}, "failureThreshold": 1}}]});
    let mut world = World::running(spec);
    assert!(world.container("c").ready);
    world.pass();
    for _ in 0..2 {
        world.answer(0, false);
    }
    assert!(!world.container("c").ready);
    assert_eq!(world.condition("Ready").reason.as_deref(), Some("ContainersNotReady"));
    assert!(world.signals.is_empty());
    world.pass();
    world.answer(0, false);
    world.answer(0, false);
    assert_eq!(world.signals, [("c".to_owned(), 15)]);
    assert!(world.has_event("Unhealthy") && world.has_event("Killing"));
    world.ends("c", 143);
    world.settle();
    assert_eq!(world.container("c").restart_count, 1);
}

#[test]
fn hooks_come_after_start_and_before_stop() {
    let spec = json!({"containers": [{"name": "c", "image": "x:1", "lifecycle": {
        "postStart": {"httpGet": {"port": 1}}, "preStop": {"sleep": {"seconds": 5}}}}]});
    let mut world = World::new(spec);
    world.send(Event::Start);
    for _ in 0..4 {
        world.answer(0, true);
    }
    assert!(!world.container("c").ready, "the hook still runs");
    world.settle();
    assert!(world.container("c").ready);
    world.stop(StopCause::Deleted, 30);
    assert!(world.signals.is_empty(), "the hook comes first");
    world.answer(0, true);
    assert_eq!(world.signals, [("c".to_owned(), 15)]);
}

#[test]
fn the_active_deadline_fails_the_pod() {
    let mut spec = one("Always");
    spec["activeDeadlineSeconds"] = json!(60);
    let mut world = World::running(spec);
    assert_eq!(world.pass().as_secs(), 60);
    world.ends("c", 0);
    world.settle();
    assert_eq!((world.phase(), world.status.reason.as_deref()), ("Failed", Some("DeadlineExceeded")));
    assert!(matches!(world.done, Some(Outcome::Failed { .. })));
}

#[test]
fn volumes_and_sandbox_are_tried_again() {
    let mut world = World::new(one("Always"));
    world.send(Event::Start);
    world.refuse();
    assert!(world.has_event("FailedMount"));
    assert_eq!(world.pass().as_secs(), 10);
    world.answer(0, true);
    world.refuse();
    assert!(world.has_event("FailedCreatePodSandBox"));
    world.pass();
    world.settle();
    assert!(world.is_running("c"));
}

#[test]
fn foreign_conditions_gate_readiness() {
    let mut spec = one("Always");
    spec["readinessGates"] = json!([{"conditionType": "example.com/up"}]);
    let mut world = World::running(spec);
    assert_eq!(world.condition("Ready").reason.as_deref(), Some("ReadinessGatesNotReady"));
    let mut pod = world.machine.pod().clone();
    pod.status = serde_json::from_value(json!({"conditions": [{"type": "example.com/up", "status": "True"}]})).ok();
    world.send(Event::Updated(Box::new(pod)));
    assert_eq!(world.condition("Ready").status, "True");
}

/// Else it would hold the executor for all of the time that the agent gives it to end.
#[test]
fn an_executor_that_ends_gives_pods_no_more_than_their_own_grace() {
    for (own, given, expected) in [(1, 30, 1), (30, 5, 5)] {
        let mut world = World::running(json!({
            "terminationGracePeriodSeconds": own,
            "containers": [{ "name": "c", "image": "x" }],
        }));
        world.stop(StopCause::Shutdown, given);
        assert_eq!(world.signals, [("c".to_owned(), 15)]);
        assert_eq!(world.pass().as_secs(), expected, "{own} s of its own, {given} s in all");
        assert_eq!(world.signals.last(), Some(&("c".to_owned(), 9)));
    }
}
