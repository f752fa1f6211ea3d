//! The executor's rules, one by one and in random order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::messages::*;
use km_mesos_proto::v1::TaskState;
use km_pod::Outcome;

const IDLE: Duration = Duration::from_secs(1200);

fn tasks() -> Tasks {
    Tasks::new(Settings { suicide_timeout: IDLE, shutdown_grace: Duration::from_secs(2) })
}

fn pod_value(name: &str, task: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"),
                        "annotations": {keys::TASK_ID: task}},
           "spec": {"containers": [{"name": "c", "image": "x",
                                    "ports": [{"containerPort": 80, "hostPort": 31000}]}]}})
}

fn pod(name: &str, task: &str) -> Box<Pod> {
    Box::new(serde_json::from_value(pod_value(name, task)).unwrap())
}

fn launch(task: &str, data: Option<Vec<u8>>) -> Event {
    Event::Launch(Box::new(v1::TaskInfo { task_id: task.into(), data, ..Default::default() }))
}

fn launch_pod(task: &str, name: &str) -> Event {
    launch(task, Some(pod_value(name, task).to_string().into_bytes()))
}

fn bound(task: &str, name: &str) -> Event {
    Event::Bound { task: task.into(), result: Ok(pod(name, task)) }
}

/// State and message of what is sent to Mesos.
fn sent(actions: &[Action]) -> Vec<(TaskState, String)> {
    let statuses = actions.iter().filter_map(|action| match action {
        Action::Send(status) | Action::DeletePod { then: Some(status), .. } => Some(status),
        _ => None,
    });
    statuses.map(|status| (status.state(), status.message().to_owned())).collect()
}

fn one(actions: &[Action], state: TaskState, message: &str) {
    assert_eq!(sent(actions), [(state, message.to_owned())]);
}

fn go(tasks: &mut Tasks, event: Event) -> Vec<Action> {
    tasks.handle(Duration::ZERO, event)
}

/// Tasks with one pod started.
fn started() -> Tasks {
    let mut tasks = tasks();
    go(&mut tasks, launch_pod("t", "p"));
    go(&mut tasks, bound("t", "p"));
    tasks
}

#[test]
fn a_launch_is_bound_started_and_reported() {
    let mut tasks = tasks();
    let actions = go(&mut tasks, launch_pod("t", "p"));
    assert!(matches!(actions.as_slice(), [Action::Bind { .. }]), "{actions:?}");
    assert!(go(&mut tasks, launch_pod("t", "p")).is_empty(), "a task that is known is ignored");
    let mut from_api = pod("p", "t");
    from_api.spec.as_mut().unwrap().containers[0].ports.as_mut().unwrap()[0].host_port = None;
    let actions = go(&mut tasks, Event::Bound { task: "t".into(), result: Ok(from_api) });
    one(&actions, TaskState::TaskStarting, CREATE_BINDING_SUCCESS);
    let Some(Action::StartPod { pod, .. }) = actions.get(1) else { panic!("{actions:?}") };
    let port = &pod.spec.as_ref().unwrap().containers[0].ports.as_ref().unwrap()[0];
    assert_eq!(port.host_port, Some(31000), "host ports come from the task");
    let running = || Event::Running { task: "t".into(), status: Box::default() };
    let actions = go(&mut tasks, running());
    one(&actions, TaskState::TaskRunning, "pod-running:p_n");
    let Action::Send(status) = &actions[0] else { panic!() };
    let data: serde_json::Value = serde_json::from_slice(status.data()).unwrap();
    assert_eq!(data["metadata"]["name"], "p_n");
    assert!(go(&mut tasks, running()).is_empty());
}

/// A launched pod of one container, and the task that holds one CPU and 64 MB.
fn launched(resources: &str, counted: Option<&str>) -> v1::TaskInfo {
    let mut value = pod_value("p", "t");
    value["spec"]["containers"][0]["resources"] = serde_json::from_str(resources).unwrap();
    if let Some(counted) = counted {
        value["metadata"]["annotations"][keys::COUNTED] = counted.into();
    }
    let resources = km_mesos_proto::resources::Resources::parse("cpus(a):0.5;cpus:0.5;mem:64", "*").unwrap();
    let data = Some(value.to_string().into_bytes());
    v1::TaskInfo { task_id: "t".into(), data, resources: resources.to_protos(), ..Default::default() }
}

#[test]
fn a_pod_starts_with_what_its_task_holds() {
    let fits = r#"{"requests": {"cpu": "1"}}"#;
    let limited = r#"{"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}"#;
    let big = r#"{"requests": {"cpu": "2"}}"#;
    for (case, task, counted, of_api, starts_with, updated) in [
        ("as launched", fits, None, fits, fits, false),
        ("resized within the task before it was bound", "{}", None, fits, fits, false),
        ("resized beyond it", fits, None, big, fits, true),
        ("limits that the scheduler filled in", limited, Some("limits"), "{}", limited, false),
    ] {
        let mut tasks = tasks();
        go(&mut tasks, Event::Launch(Box::new(launched(task, counted))));
        let mut from_api = pod("p", "t");
        from_api.spec.as_mut().unwrap().containers[0].resources = Some(serde_json::from_str(of_api).unwrap());
        let actions = go(&mut tasks, Event::Bound { task: "t".into(), result: Ok(from_api) });
        let Some(Action::StartPod { pod, allotment, .. }) = actions.get(1) else { panic!("{case}: {actions:?}") };
        let of_limits = counted.is_some();
        assert_eq!(*allotment, Allotment { milli_cpu: 1000, memory_bytes: 64 << 20, of_limits }, "{case}");
        let resources = pod.spec.as_ref().unwrap().containers[0].resources.clone();
        assert_eq!(resources, serde_json::from_str(starts_with).unwrap(), "{case}");
        let told = actions.iter().any(|action| matches!(action, Action::UpdatePod { .. }));
        assert_eq!(told, updated, "{case}: {actions:?}");
    }
}

#[test]
fn what_is_no_pod_fails_with_the_reason() {
    for (data, reason) in [
        (None, "the task carries no data"),
        (Some(json!({"metadata": {"name": "p"}})), "metadata.namespace is missing"),
        (Some(json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}})), "spec.containers is empty"),
    ] {
        let data = data.map(|data| data.to_string().into_bytes());
        let message = format!("{UNMARSHAL_TASK_DATA_FAILURE}: {reason}");
        one(&go(&mut tasks(), launch("t", data)), TaskState::TaskFailed, &message);
    }
    let actions = go(&mut tasks(), launch("t", Some(b"nonsense".to_vec())));
    assert!(sent(&actions)[0].1.starts_with(UNMARSHAL_TASK_DATA_FAILURE));
    let foreign = pod_value("p", "other").to_string().into_bytes();
    one(&go(&mut tasks(), launch("t", Some(foreign))), TaskState::TaskFailed, CREATE_BINDING_FAILURE);
}

#[test]
fn a_pod_has_one_task() {
    let mut tasks = started();
    one(&go(&mut tasks, launch_pod("t2", "p")), TaskState::TaskFailed, CREATE_BINDING_FAILURE);
}

#[test]
fn failed_bindings_end_the_task() {
    for (failure, state, message) in [
        (BindFailure::Gone("gone".into()), TaskState::TaskKilled, POD_DELETED),
        (
            BindFailure::Failed { message: ANNOTATION_UPDATE_FAILURE, detail: String::new() },
            TaskState::TaskFailed,
            ANNOTATION_UPDATE_FAILURE,
        ),
    ] {
        let mut tasks = tasks();
        go(&mut tasks, launch_pod("t", "p"));
        one(&go(&mut tasks, Event::Bound { task: "t".into(), result: Err(failure) }), state, message);
    }
}

#[test]
fn the_end_tells_mesos_what_it_was() {
    let ended = |outcome| go(&mut started(), Event::Ended { task: "t".into(), outcome });
    one(&ended(Outcome::Succeeded), TaskState::TaskFinished, "pod-succeeded");
    one(&ended(Outcome::Failed { message: "why".into() }), TaskState::TaskFailed, "why");
    one(&ended(Outcome::Stopped(StopCause::Gone)), TaskState::TaskKilled, POD_DELETED);
    one(&ended(Outcome::Stopped(StopCause::Shutdown)), TaskState::TaskKilled, EXECUTOR_SHUTDOWN);
    for cause in [StopCause::Deleted, StopCause::Killed] {
        let actions = ended(Outcome::Stopped(cause));
        one(&actions, TaskState::TaskKilled, POD_DELETED);
        assert!(actions.iter().any(|action| matches!(action, Action::DeletePod { key, .. } if key.uid == "uid-p")));
    }
}

#[test]
fn kills_reach_the_pod_in_any_stage() {
    let kill = || Event::Kill { task: "t".into(), grace: None };
    one(&go(&mut tasks(), kill()), TaskState::TaskLost, KILL_POD_TASK);
    let actions = go(&mut started(), kill());
    assert!(matches!(actions.as_slice(), [Action::StopPod { cause: StopCause::Killed, .. }]), "{actions:?}");
    let mut binding = tasks();
    go(&mut binding, launch_pod("t", "p"));
    assert!(go(&mut binding, kill()).is_empty());
    let actions = go(&mut binding, bound("t", "p"));
    one(&actions, TaskState::TaskKilled, POD_DELETED);
    assert!(!actions.iter().any(|action| matches!(action, Action::StartPod { .. })), "{actions:?}");
}

#[test]
fn a_deletion_in_the_api_stops_the_pod_with_its_grace() {
    let mut tasks = started();
    let mut pod = pod("p", "t");
    pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    pod.metadata.deletion_grace_period_seconds = Some(7);
    let actions = go(&mut tasks, Event::Pod(PodChange::Applied(pod)));
    let expected =
        Action::StopPod { uid: "uid-p".into(), cause: StopCause::Deleted, grace: Some(Duration::from_secs(7)) };
    assert!(actions.contains(&expected), "{actions:?}");
}

#[test]
fn a_list_without_the_pod_means_that_it_is_gone() {
    let gone = |actions: &[Action]| {
        actions.iter().any(|action| matches!(action, Action::StopPod { cause: StopCause::Gone, .. }))
    };
    let mut tasks = started();
    assert!(!gone(&go(&mut tasks, Event::Pod(PodChange::Complete(vec!["uid-p".into()])))));
    assert!(gone(&go(&mut tasks, Event::Pod(PodChange::Complete(vec![])))));
    let mut binding = self::tasks();
    go(&mut binding, launch_pod("t", "p"));
    assert!(!gone(&go(&mut binding, Event::Pod(PodChange::Complete(vec![])))), "it may not be listed yet");
}

#[test]
fn an_ended_pod_is_deleted_when_asked_and_forgotten_when_gone() {
    let ended = || {
        let mut tasks = started();
        go(&mut tasks, Event::Ended { task: "t".into(), outcome: Outcome::Succeeded });
        tasks
    };
    let mut deleted = pod("p", "t");
    deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let actions = go(&mut ended(), Event::Pod(PodChange::Applied(deleted)));
    assert!(actions.iter().any(|action| matches!(action, Action::DeletePod { then: None, .. })), "{actions:?}");
    let actions = go(&mut ended(), Event::Pod(PodChange::Gone("uid-p".into())));
    assert!(actions.contains(&Action::ForgetPod { uid: "uid-p".into() }), "{actions:?}");
}

#[test]
fn messages() {
    let exits = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Exit { .. }));
    assert!(exits(&go(&mut tasks(), Event::Message(b"kamikaze".to_vec()))));
    assert!(!exits(&go(&mut started(), Event::Message(b"kamikaze".to_vec()))));
    let mut tasks = started();
    let actions = go(&mut tasks, Event::Message(b"task-lost:t".to_vec()));
    one(&actions, TaskState::TaskLost, TASK_LOST_ACK);
    let outcome = Outcome::Stopped(StopCause::Killed);
    let actions = go(&mut tasks, Event::Ended { task: "t".into(), outcome });
    assert!(sent(&actions).is_empty(), "Mesos has a terminal status already");
    assert!(sent(&go(&mut tasks, Event::Message(b"task-lost:".to_vec()))).is_empty());
}

#[test]
fn idleness_ends_the_executor() {
    let mut tasks = tasks();
    let actions = go(&mut tasks, Event::Timer);
    assert_eq!(actions, [Action::SetTimer { at: IDLE }]);
    tasks.handle(Duration::from_secs(1000), launch_pod("t", "p"));
    assert!(tasks.handle(IDLE, Event::Timer).is_empty(), "a task resets the watch");
    let failure = BindFailure::Gone(String::new());
    let bound = Event::Bound { task: "t".into(), result: Err(failure) };
    let at = IDLE + IDLE;
    assert!(tasks.handle(IDLE, bound).contains(&Action::SetTimer { at }));
    assert!(matches!(tasks.handle(at, Event::Timer).as_slice(), [Action::Exit { .. }]));
}

#[test]
fn shutdown_stops_everything_then_exits() {
    let mut tasks = started();
    go(&mut tasks, launch_pod("t2", "p2"));
    let actions = go(&mut tasks, Event::Shutdown);
    one(&actions, TaskState::TaskKilled, EXECUTOR_SHUTDOWN);
    let grace = Some(Duration::from_secs(2));
    assert!(actions.contains(&Action::StopPod { uid: "uid-p".into(), cause: StopCause::Shutdown, grace }));
    assert!(go(&mut tasks, launch_pod("t3", "p3")).is_empty(), "nothing new is taken");
    let outcome = Outcome::Stopped(StopCause::Shutdown);
    let actions = go(&mut tasks, Event::Ended { task: "t".into(), outcome });
    assert!(matches!(actions.as_slice(), [Action::Send(_), Action::Exit { .. }]), "{actions:?}");
}

fn random_event() -> impl Strategy<Value = (u8, u8)> {
    (0..9u8, 0..3u8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn each_task_ends_at_most_once(steps in prop::collection::vec(random_event(), 0..60)) {
        let mut tasks = tasks();
        let mut last: BTreeMap<String, TaskState> = BTreeMap::new();
        let mut started: std::collections::BTreeSet<String> = Default::default();
        for (kind, which) in steps {
            let (task, name) = (format!("t{which}"), format!("p{which}"));
            // Tasks that ended don't come back: their ids are unique.
            let over = last.get(&task).is_some_and(|state| is_terminal(*state));
            let event = match kind {
                0 if !over => launch_pod(&task, &name),
                1 => bound(&task, &name),
                2 => Event::Bound { task: task.clone(), result: Err(BindFailure::Gone(String::new())) },
                3 if started.contains(&task) => Event::Running { task: task.clone(), status: Box::default() },
                4 if started.contains(&task) => Event::Ended { task: task.clone(), outcome: Outcome::Succeeded },
                5 if last.contains_key(&task) && !over => Event::Kill { task: task.clone(), grace: None },
                6 => Event::Pod(PodChange::Gone(format!("uid-{name}"))),
                7 if last.contains_key(&task) && !over => Event::Message(format!("task-lost:{task}").into_bytes()),
                8 if which == 0 => Event::Shutdown,
                _ => Event::Timer,
            };
            for action in go(&mut tasks, event) {
                match action {
                    Action::StartPod { task, .. } => {
                        prop_assert!(started.insert(task), "a pod was started twice");
                    }
                    Action::Send(status) | Action::DeletePod { then: Some(status), .. } => {
                        let id = status.task_id.value.clone();
                        let before = last.insert(id, status.state());
                        prop_assert!(!before.is_some_and(is_terminal), "{before:?} then {:?}", status.state());
                    }
                    _ => {}
                }
            }
        }
    }
}

fn is_terminal(state: TaskState) -> bool {
    !matches!(state, TaskState::TaskStarting | TaskState::TaskRunning)
}
