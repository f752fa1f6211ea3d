//! The life of a task: registry, status updates, task info, recovery. And what executors run without tasks.

mod static_pods;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec, PodStatus};
use km_kube::keys;
use km_mesos_proto::v1::{self, TaskState};
use km_podtask::{
    FINISHED_HISTORY, Flags, PodKey, PortEntry, Recovered, Registry, RegistryError, State, Task, TaskParts,
    discovery_info, executor, recover, task_info,
};

const NOW: Duration = Duration::from_secs(7);

fn task(id: &str, pod: &str) -> Task {
    Task {
        id: id.to_owned(),
        pod: PodKey::new("ns", pod),
        pod_uid: format!("uid-{pod}"),
        agent_id: "agent1".to_owned(),
        hostname: "host1".to_owned(),
        executor_id: "exec1".to_owned(),
        offer_id: "offer1".to_owned(),
        resources: Vec::new(),
        ports: Vec::new(),
        state: State::Pending,
        flags: Flags { launched: true, ..Flags::default() },
        created: Duration::ZERO,
        launched: Some(Duration::ZERO),
        bound: None,
        updated: None,
    }
}

#[test]
fn duplicates_are_refused_and_strangers_harmless() {
    let mut registry = Registry::default();
    registry.register(task("t1", "p1")).expect("the first is new");
    assert_eq!(registry.register(task("t1", "p2")), Err(RegistryError::DuplicateId("t1".into())));
    assert_eq!(registry.register(task("t2", "p1")), Err(RegistryError::DuplicatePod(PodKey::new("ns", "p1"))));
    assert_eq!(registry.of_pod(&PodKey::new("ns", "p1")).map(|task| task.id.as_str()), Some("t1"));
    assert_eq!(registry.unregister("unknown"), None);
    assert!(registry.unregister("t1").is_some() && registry.is_empty());
    assert!(registry.of_pod(&PodKey::new("ns", "p1")).is_none());
    let unknown = registry.update_status(NOW, "unknown", TaskState::TaskRunning);
    assert_eq!((unknown.task, unknown.before), (None, None));
}

#[test]
fn a_task_goes_through_its_states() {
    use TaskState::{TaskFinished, TaskKilling, TaskRunning, TaskStaging, TaskStarting, TaskUnreachable};
    let mut registry = Registry::default();
    registry.register(task("t1", "p1")).expect("new");
    let trace = [
        (TaskStaging, State::Pending, false),
        (TaskStarting, State::Pending, true),
        (TaskStarting, State::Pending, false),
        (TaskRunning, State::Running, false),
        (TaskRunning, State::Running, false),
        (TaskStarting, State::Running, false),
        (TaskUnreachable, State::Running, false),
        (TaskKilling, State::Running, false),
        (TaskFinished, State::Finished, false),
        (TaskFinished, State::Finished, false),
        (TaskRunning, State::Finished, false),
    ];
    for (number, (update, state, newly_bound)) in trace.into_iter().enumerate() {
        let transition = registry.update_status(NOW, "t1", update);
        let after = transition.task.expect("known");
        assert_eq!((after.state, transition.newly_bound), (state, newly_bound), "step {number}: {update:?}");
        assert!(!transition.removed);
        if update == TaskUnreachable {
            assert!(after.flags.unreachable);
        }
    }
    assert!(registry.of_pod(&PodKey::new("ns", "p1")).is_none(), "a finished task frees its pod's key");
}

#[test]
fn an_end_while_pending_is_an_end() {
    let mut registry = Registry::default();
    registry.register(task("t1", "p1")).expect("new");
    let transition = registry.update_status(NOW, "t1", TaskState::TaskFinished);
    assert_eq!(transition.task.map(|task| task.state), Some(State::Finished));
}

#[test]
fn an_unreachable_task_comes_back() {
    let mut registry = Registry::default();
    registry.register(task("t1", "p1")).expect("new");
    registry.update_status(NOW, "t1", TaskState::TaskUnreachable);
    let back = registry.update_status(NOW, "t1", TaskState::TaskRunning).task.expect("known");
    assert_eq!((back.state, back.flags.unreachable), (State::Running, false));
}

#[test]
fn ends_that_are_no_success_remove_the_task() {
    use TaskState::*;
    for update in [TaskError, TaskFailed, TaskKilled, TaskLost, TaskDropped, TaskGone, TaskGoneByOperator] {
        for before in [None, Some(TaskRunning)] {
            let mut registry = Registry::default();
            registry.register(task("t1", "p1")).expect("new");
            if let Some(before) = before {
                registry.update_status(NOW, "t1", before);
            }
            let transition = registry.update_status(NOW, "t1", update);
            assert!(transition.removed && transition.task.is_some() && registry.is_empty(), "{update:?}");
        }
        let mut registry = Registry::default();
        registry.register(task("t1", "p1")).expect("new");
        registry.update_status(NOW, "t1", TaskFinished);
        assert_eq!(registry.update_status(NOW, "t1", update).before, Some(State::Finished));
        assert_eq!(registry.get("t1").map(|task| task.state), Some(State::Finished), "{update:?}");
    }
}

#[test]
fn so_many_finished_tasks_are_remembered() {
    let mut registry = Registry::default();
    for number in 0..=FINISHED_HISTORY {
        let id = format!("t{number}");
        registry.register(task(&id, "p")).expect("the pod's key is free again");
        registry.update_status(NOW, &id, TaskState::TaskFinished);
    }
    assert_eq!(registry.len(), FINISHED_HISTORY);
    assert!(registry.get("t0").is_none() && registry.get("t1").is_some());
}

#[test]
fn amending_changes_everything_but_the_state() {
    let mut registry = Registry::default();
    registry.register(task("t1", "p1")).expect("new");
    registry.amend("t1", |task| {
        task.flags.deleted = true;
        task.state = State::Finished;
    });
    let task = registry.get("t1").expect("known");
    assert_eq!((task.flags.deleted, task.state), (true, State::Pending));
}

fn pod(annotations: &[(&str, &str)]) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("p1".into());
    pod.metadata.namespace = Some("ns".into());
    pod.metadata.uid = Some("uid-p1".into());
    pod.metadata.annotations = (!annotations.is_empty())
        .then(|| annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    let port = ContainerPort { container_port: 80, name: Some("http".into()), ..ContainerPort::default() };
    let container = Container { name: "a".into(), ports: Some(vec![port]), ..Container::default() };
    pod.spec = Some(PodSpec { containers: vec![container], ..PodSpec::default() });
    pod
}

fn mapped() -> PortEntry {
    PortEntry {
        container: "a".into(),
        index: 0,
        container_port: 80,
        protocol: "TCP".into(),
        name: Some("http".into()),
        host_port: 31_000,
        role: "*".into(),
    }
}

#[test]
fn a_task_info_carries_the_annotated_pod() {
    let task = Task { ports: vec![mapped()], ..task("t1", "p1") };
    let pod = pod(&[("kept", "yes")]);
    let parts = TaskParts { task: &task, pod: &pod, executor: &v1::ExecutorInfo::default(), discovery: false };
    let info = task_info(&parts).expect("a pod is JSON");
    assert_eq!((info.name.as_str(), info.task_id.value.as_str()), ("p1.ns.pod", "t1"));
    assert!(info.executor.is_some() && info.command.is_none() && info.discovery.is_none());
    let sent: Pod = serde_json::from_slice(&info.data.expect("there is data")).expect("the data is a pod");
    let text = serde_json::to_value(&sent).expect("JSON");
    assert_eq!((&text["apiVersion"], &text["kind"]), (&"v1".into(), &"Pod".into()));
    let expected: BTreeMap<String, String> = [
        ("kept", "yes"),
        (keys::TASK_ID, "t1"),
        (keys::SLAVE_ID, "agent1"),
        (keys::OFFER_ID, "offer1"),
        (keys::EXECUTOR_ID, "exec1"),
        (keys::BINDING_HOST, "host1"),
        ("k8s.mesosphere.io/port_TCP_80", "31000"),
        ("k8s.mesosphere.io/portName_TCP_http", "31000"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    assert_eq!(sent.metadata.annotations, Some(expected));
    let ports = sent.spec.and_then(|spec| spec.containers[0].ports.clone()).expect("ports");
    assert_eq!(ports[0].host_port, Some(31_000));
    assert!(pod.metadata.annotations.is_some_and(|annotations| annotations.len() == 1), "the pod itself is unchanged");
}

#[test]
fn what_was_launched_can_be_recovered() {
    let task = task("t1", "p1");
    let parts = TaskParts { task: &task, pod: &pod(&[]), executor: &v1::ExecutorInfo::default(), discovery: true };
    let info = task_info(&parts).expect("a pod is JSON");
    let bound: Pod = serde_json::from_slice(&info.data.unwrap_or_default()).expect("a pod");
    let Ok(Recovered::Task(back)) = recover(NOW, &bound) else { panic!("it was launched") };
    assert_eq!((back.id, back.agent_id, back.hostname), (task.id, task.agent_id, task.hostname));
    assert_eq!((back.executor_id, back.pod_uid), (task.executor_id, task.pod_uid));
    assert!(back.flags.launched && back.flags.bound);
}

#[test]
fn only_launched_pods_are_recovered() {
    let launched = [(keys::TASK_ID, "t1"), (keys::SLAVE_ID, "a"), (keys::BINDING_HOST, "h")];
    assert_eq!(recover(NOW, &pod(&[])), Ok(Recovered::Nothing));
    assert_eq!(recover(NOW, &pod(&[(keys::ROLES, "*")])), Ok(Recovered::Nothing));
    let mirror = [&launched[..], &[(keys::MIRROR_POD, "x")]].concat();
    assert_eq!(recover(NOW, &pod(&mirror)), Ok(Recovered::Nothing));
    let mut ended = pod(&launched);
    ended.status = Some(PodStatus { phase: Some("Succeeded".into()), ..PodStatus::default() });
    assert_eq!(recover(NOW, &ended), Ok(Recovered::Nothing));
    let missing = recover(NOW, &pod(&launched[..2])).map_err(|error| error.missing);
    assert_eq!(missing, Err(keys::BINDING_HOST));
}

#[test]
fn discovery_comes_from_labels_and_annotations() {
    let mut pod = pod(&[(keys::DISCOVERY_NAME, "front"), (keys::DISCOVERY_VISIBILITY, "external")]);
    pod.metadata.labels = Some(BTreeMap::from([
        ("name".to_owned(), "overridden".to_owned()),
        ("environment".to_owned(), "test".to_owned()),
        ("version".to_owned(), String::new()),
    ]));
    let info = discovery_info(&pod, &[mapped()]);
    assert_eq!(info.visibility, v1::discovery_info::Visibility::External as i32);
    assert_eq!(info.name.as_deref(), Some("front.ns.pod"));
    assert_eq!((info.environment.as_deref(), info.version), (Some("test"), None));
    let ports = info.ports.map(|ports| ports.ports).unwrap_or_default();
    assert_eq!((ports[0].number, ports[0].protocol.as_deref()), (31_000, Some("tcp")));
}

#[test]
fn task_names_have_a_namespace() {
    assert_eq!(PodKey::new("bar", "foo").mesos_name(), "foo.bar.pod");
    assert_eq!(PodKey::new("", "foo").mesos_name(), "foo.default.pod");
}

fn prototype() -> v1::ExecutorInfo {
    let uri = |value: &str| v1::command_info::Uri { value: value.into(), executable: Some(true), ..Default::default() };
    v1::ExecutorInfo {
        name: Some(executor::NAME.into()),
        command: Some(v1::CommandInfo {
            value: Some("./km".into()),
            shell: Some(false),
            arguments: vec!["km".into(), "minion".into()],
            uris: vec![uri("http://a/km"), uri("http://a/kubeconfig")],
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn another_configuration_is_another_executor() {
    let id = executor::id(&prototype());
    assert!(id.value.ends_with(executor::ID_SUFFIX));
    assert_eq!(id, executor::id(&prototype()));
    let mut shuffled = prototype();
    let command = shuffled.command.as_mut().expect("it has a command");
    command.uris.reverse();
    assert_eq!(id, executor::id(&shuffled));
    let mut changed = prototype();
    changed.command.as_mut().expect("it has a command").arguments.push("--v=2".into());
    assert_ne!(id, executor::id(&changed));
    // Resources and the host name are not part of it.
    let resource = v1::Resource { name: "cpus".into(), ..Default::default() };
    let mut placed = executor::on_agent(&prototype(), "h1", vec![resource]);
    placed = executor::on_agent(&placed, "h2", placed.resources.clone());
    let arguments = placed.command.map(|command| command.arguments).unwrap_or_default();
    assert_eq!(arguments, ["km", "minion", "--hostname-override=h2"]);
}

#[test]
fn executor_resources_survive_as_text() {
    let scalar = |name: &str, value: f64| v1::Resource {
        name: name.into(),
        scalar: Some(v1::value::Scalar { value }),
        ..Default::default()
    };
    let resources = vec![scalar("cpus", 0.1), scalar("mem", 64.0), scalar("mem", 128.0)];
    let text = executor::encode_resources(&resources);
    assert_eq!(text.split(',').count(), 3);
    assert_eq!(executor::decode_resources(&text), Ok(resources));
    assert_eq!(executor::encode_resources(&[]), "");
    for bad in ["", "!", "aGVsbG8", "////"] {
        assert!(executor::decode_resources(bad).is_err(), "{bad:?}");
    }
}
