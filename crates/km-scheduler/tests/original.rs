//! Situations that the original's own tests played, one event at a time.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod world;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use km_mesos_proto::v1::{self, TaskState};
use km_scheduler::core::{Action, ApiReply, CallOutcome, Config, Core, Event, Request, Subscription};
use serde_json::json;
use world::{config, spec};

const SECOND: Duration = Duration::from_secs(1);

fn subscribed() -> Event {
    let (framework_id, framework) = ("framework".to_owned(), Arc::default());
    Event::Subscribed(Box::new(Subscription { framework_id, suppressed: false, framework, updates: false }))
}

/// A core, its time, and what it has wanted so far.
struct Stage {
    core: Core,
    now: Duration,
    actions: Vec<(Duration, Action)>,
}

impl Stage {
    /// All pods and nodes are known; Mesos isn't yet.
    fn unsubscribed(config: Config) -> Self {
        let mut stage = Self { core: Core::new(config, 1), now: Duration::ZERO, actions: Vec::new() };
        stage.tell(Event::CachesSynced);
        stage
    }

    fn new(config: Config) -> Self {
        let mut stage = Self::unsubscribed(config);
        stage.tell(subscribed());
        stage
    }

    fn tell(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.core.handle(self.now, event) {
                // Nodes are made as they are asked for.
                if let Action::CreateNode { op, node } = &action {
                    events.push_back(Event::Api { op: *op, reply: ApiReply::Done });
                    events.push_back(Event::NodeApplied(Arc::new((**node).clone())));
                }
                self.actions.push((self.now, action));
            }
        }
    }

    /// Ticks until then, twenty times a second.
    fn run(&mut self, until: Duration) {
        while self.now < until {
            self.now += Duration::from_millis(50);
            self.tell(Event::Tick);
        }
    }

    /// The tasks launched so far, accepted by Mesos.
    fn launches(&mut self) -> Vec<v1::TaskInfo> {
        let batches: Vec<(u64, Vec<v1::TaskInfo>)> = self
            .actions
            .iter()
            .filter_map(|(_, action)| match action {
                Action::Accept { batch, tasks, .. } => Some((*batch, tasks.clone())),
                _ => None,
            })
            .collect();
        for (batch, _) in &batches {
            self.tell(Event::AcceptResult { batch: *batch, outcome: CallOutcome::Accepted });
        }
        batches.into_iter().flat_map(|(_, tasks)| tasks).collect()
    }

    /// When Mesos was asked for all tasks (true), or for those that are known.
    fn reconciliations(&self, implicit: bool) -> Vec<u64> {
        let wanted = |action: &Action| matches!(action, Action::Reconcile(tasks) if tasks.is_empty() == implicit);
        self.actions.iter().filter(|(_, action)| wanted(action)).map(|(at, _)| at.as_secs()).collect()
    }

    fn count(&self, pleases: impl Fn(&Action) -> bool) -> usize {
        self.actions.iter().filter(|(_, action)| pleases(action)).count()
    }

    fn waiting(&self) -> Vec<String> {
        self.core.queue_lines(self.now).into_iter().map(|line| line.pod).collect()
    }
}

/// A pod of one CPU with a version that tells its states apart.
fn pod(name: &str, version: &str) -> Pod {
    let mut pod = Pod { spec: Some(spec("1", "64Mi", None)), ..Pod::default() };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.uid = Some(format!("uid-{name}"));
    pod.metadata.labels = Some(BTreeMap::from([("version".to_owned(), version.to_owned())]));
    pod
}

fn applied(pod: Pod) -> Event {
    Event::PodApplied(Arc::new(pod))
}

fn offer(id: &str, cpus: f64) -> Event {
    let scalar = |name: &str, value| v1::Resource {
        name: name.to_owned(),
        r#type: v1::value::Type::Scalar as i32,
        scalar: Some(v1::value::Scalar { value }),
        ..v1::Resource::default()
    };
    let ports = v1::Resource {
        name: "ports".to_owned(),
        r#type: v1::value::Type::Ranges as i32,
        ranges: Some(km_podtask::new_ranges(&[31000, 31001, 31002, 31003])),
        ..v1::Resource::default()
    };
    Event::Offers(vec![v1::Offer {
        id: id.into(),
        agent_id: "agent".into(),
        hostname: "host".to_owned(),
        resources: vec![scalar("cpus", cpus), scalar("mem", 4096.0), ports],
        ..v1::Offer::default()
    }])
}

fn launched_pods(tasks: &[v1::TaskInfo]) -> Vec<(String, String)> {
    let pod = |task: &v1::TaskInfo| -> (String, String) {
        let pod: Pod = serde_json::from_slice(task.data()).unwrap();
        (pod.metadata.name.unwrap(), pod.metadata.labels.unwrap()["version"].clone())
    };
    tasks.iter().map(pod).collect()
}

#[test]
fn pods_wait_for_the_subscription_and_are_placed_then() {
    let mut stage = Stage::unsubscribed(config());
    stage.tell(applied(pod("early", "1")));
    stage.run(SECOND * 5);
    assert!(stage.launches().is_empty() && stage.count(|action| matches!(action, Action::Revive)) == 0);
    assert_eq!(stage.waiting(), ["default/early"]);
    stage.tell(subscribed());
    stage.tell(offer("o1", 4.0));
    stage.run(SECOND * 6);
    let launches = stage.launches();
    assert_eq!(launched_pods(&launches), [("early".to_owned(), "1".to_owned())]);
}

#[test]
fn an_updated_pod_keeps_its_place_and_goes_once_with_its_newest_form() {
    let mut stage = Stage::new(config());
    for (name, version) in [("foo", "10"), ("bar", "1"), ("foo", "11"), ("foo", "13"), ("zab", "30")] {
        stage.tell(applied(pod(name, version)));
    }
    let mut seen = Vec::new();
    for number in 0..3 {
        // Room for the executor and one pod, each time.
        stage.tell(offer(&format!("o{number}"), 1.5));
        stage.run(stage.now + SECOND);
        let launches = stage.launches();
        seen = launched_pods(&launches);
        assert_eq!(seen.len(), number + 1);
    }
    let expected = [("foo", "13"), ("bar", "1"), ("zab", "30")];
    assert_eq!(seen, expected.map(|(name, version)| (name.to_owned(), version.to_owned())));
    assert!(stage.waiting().is_empty());
}

#[test]
fn a_pod_that_was_launched_elsewhere_or_is_gone_is_not_placed() {
    let bound_elsewhere = {
        let mut pod = pod("elsewhere", "1");
        let host = ("k8s.mesosphere.io/bindingHost".to_owned(), "host".to_owned());
        pod.metadata.annotations = Some(BTreeMap::from([host]));
        pod
    };
    let table: [(&str, Vec<Event>); 4] = [
        ("has a binding host", vec![applied(bound_elsewhere.clone())]),
        ("gets a binding host while it waits", vec![applied(pod("elsewhere", "1")), applied(bound_elsewhere)]),
        ("was deleted", vec![applied(pod("gone", "1")), Event::PodDeleted(Arc::new(pod("gone", "1")))]),
        ("was deleted before it was seen", vec![Event::PodDeleted(Arc::new(pod("gone", "1")))]),
    ];
    for (what, events) in table {
        let mut stage = Stage::new(config());
        events.into_iter().for_each(|event| stage.tell(event));
        stage.tell(offer("o1", 4.0));
        stage.run(SECOND * 2);
        assert!(stage.launches().is_empty() && stage.waiting().is_empty(), "{what}");
        assert_eq!(stage.count(|action| matches!(action, Action::Kill { .. })), 0, "{what}");
    }
}

#[test]
fn a_pod_made_anew_under_its_name_is_another_pod() {
    let mut stage = Stage::new(config());
    stage.tell(applied(pod("web", "old")));
    let mut new = pod("web", "new");
    new.metadata.uid = Some("another".to_owned());
    stage.tell(applied(new));
    stage.tell(offer("o1", 4.0));
    stage.run(SECOND);
    let launches = stage.launches();
    assert_eq!(launched_pods(&launches), [("web".to_owned(), "new".to_owned())]);
}

/// A launch that failed before its pod was bound: the API server decides.
#[test]
fn a_failed_launch_is_judged_by_the_pod_as_it_is_now() {
    let unbound = || Some(pod("web", "1"));
    let bound = || {
        let mut pod = pod("web", "1");
        pod.spec.as_mut().unwrap().node_name = Some("other".to_owned());
        let task = ("k8s.mesosphere.io/taskId".to_owned(), "another-task".to_owned());
        pod.metadata.annotations = Some(BTreeMap::from([task]));
        Some(pod)
    };
    let replaced = || {
        let mut pod = pod("web", "1");
        pod.metadata.uid = Some("another".to_owned());
        Some(pod)
    };
    // The pod as the API server has it, and whether it waits again.
    let table: [(&str, Option<Pod>, bool); 4] = [
        ("gone", None, false),
        ("unbound", unbound(), true),
        ("bound", bound(), false),
        ("another", replaced(), false),
    ];
    for (what, current, waits) in table {
        let mut stage = Stage::new(config());
        stage.tell(applied(pod("web", "1")));
        stage.tell(offer("o1", 4.0));
        stage.run(SECOND);
        let task = stage.launches().remove(0);
        stage.tell(Event::Update(Box::new(v1::TaskStatus {
            task_id: task.task_id.clone(),
            agent_id: Some("agent".into()),
            state: TaskState::TaskFailed as i32,
            source: Some(v1::task_status::Source::Agent as i32),
            ..v1::TaskStatus::default()
        })));
        let asked = stage.actions.iter().rev().find_map(|(_, action)| match action {
            Action::FetchPod { op, .. } => Some(*op),
            _ => None,
        });
        stage.tell(Event::Api { op: asked.expect(what), reply: ApiReply::Pod(current.map(Arc::new)) });
        assert_eq!(!stage.waiting().is_empty(), waits, "{what}");
        assert!(stage.core.task_lines().is_empty(), "{what}: the task is forgotten");
        assert_eq!(
            stage.count(|action| matches!(action, Action::DeletePod { .. } | Action::EndPod { .. })),
            0,
            "{what}"
        );
        // It doesn't come back at once, but it does.
        stage.tell(offer("o2", 4.0));
        stage.run(stage.now + Duration::from_millis(500));
        assert_eq!(stage.launches().len(), 1, "{what}");
        stage.tell(offer("o3", 4.0));
        stage.run(stage.now + SECOND * 2);
        assert_eq!(stage.launches().len(), if waits { 2 } else { 1 }, "{what}");
    }
}

#[test]
fn implicit_reconciliations_come_with_the_subscription_and_then_rarely() {
    let timing = |second: u64, interval: u64| Config {
        second_implicit: SECOND * second as u32,
        reconcile_interval: SECOND * interval as u32,
        ..config()
    };
    // Settings, when a person asks, and when Mesos is asked within 700 s.
    let table: [(Config, &[u64], &[u64]); 6] = [
        (config(), &[], &[0, 15, 315, 615]),
        (timing(100, 300), &[], &[0, 100, 400, 700]),
        (timing(15, 0), &[], &[0]),
        (timing(300, 300), &[5, 6, 7], &[0, 15, 315, 615]),
        (timing(300, 300), &[40], &[0, 40, 340, 640]),
        (timing(15, 0), &[40, 50], &[0, 40, 55]),
    ];
    for (config, requests, expected) in table {
        let mut stage = Stage::new(config);
        for at in requests {
            stage.run(SECOND * *at as u32);
            stage.tell(Event::Request(Request::Implicit));
        }
        stage.run(SECOND * 700);
        assert_eq!(stage.reconciliations(true), expected, "asked at {requests:?}");
    }
}

#[test]
fn an_explicit_reconciliation_names_the_known_tasks() {
    let mut stage = Stage::new(config());
    stage.tell(applied(pod("web", "1")));
    stage.tell(offer("o1", 4.0));
    stage.run(SECOND);
    let task = stage.launches().remove(0);
    let mut status = v1::TaskStatus {
        task_id: task.task_id.clone(),
        agent_id: Some("agent".into()),
        state: TaskState::TaskRunning as i32,
        ..v1::TaskStatus::default()
    };
    stage.tell(Event::Update(Box::new(status.clone())));
    assert!(stage.reconciliations(false).is_empty());
    stage.run(SECOND * 20);
    stage.tell(Event::Request(Request::Explicit));
    stage.run(SECOND * 21);
    let named = stage.actions.iter().find_map(|(_, action)| match action {
        Action::Reconcile(tasks) if !tasks.is_empty() => Some(tasks.clone()),
        _ => None,
    });
    assert_eq!(named, Some(vec![(task.task_id.value.clone(), "agent".to_owned())]));
    // Asked again after 1, 2, 4, ... seconds until Mesos answers.
    stage.run(SECOND * 40);
    assert_eq!(stage.reconciliations(false), [20, 21, 23, 27, 35]);
    status.reason = Some(v1::task_status::Reason::Reconciliation as i32);
    stage.tell(Event::Update(Box::new(status)));
    stage.run(SECOND * 60);
    assert_eq!(stage.reconciliations(false).len(), 5);
    // A new subscription asks at once.
    stage.tell(Event::Disconnected);
    stage.tell(subscribed());
    stage.run(SECOND * 61);
    assert_eq!(stage.reconciliations(false)[5..], [60, 61]);
}

#[test]
fn data_that_is_no_status_does_no_harm() {
    // The data of an update is the executor's business: what is no pod status does no harm.
    let mut stage = Stage::new(config());
    stage.tell(applied(pod("web", "1")));
    stage.tell(offer("o1", 4.0));
    stage.run(SECOND);
    let task = stage.launches().remove(0);
    for data in [json!({ "status": {} }).to_string().into_bytes(), b"no json".to_vec(), Vec::new()] {
        stage.tell(Event::Update(Box::new(v1::TaskStatus {
            task_id: task.task_id.clone(),
            agent_id: Some("agent".into()),
            state: TaskState::TaskRunning as i32,
            data: Some(data),
            ..v1::TaskStatus::default()
        })));
        assert_eq!(stage.core.task_lines()[0].state, km_podtask::State::Running);
    }
}

#[test]
fn annotations_and_labels_have_the_names_of_the_original() {
    use km_kube::keys;
    let table = [
        (keys::BINDING_HOST, "bindingHost"),
        (keys::TASK_ID, "taskId"),
        (keys::SLAVE_ID, "slaveId"),
        (keys::OFFER_ID, "offerId"),
        (keys::EXECUTOR_ID, "executorId"),
        (keys::EXECUTOR_RESOURCES, "executorResources"),
        (keys::PORT_MAPPING, "portMapping"),
        (keys::STATIC_POD_FILENAME, "staticPodFilename"),
        (keys::ROLES, "roles"),
        (keys::DISCOVERY_VISIBILITY, "discovery-visibility"),
        (keys::DISCOVERY_NAME, "discovery-name"),
        (keys::DISCOVERY_ENVIRONMENT, "discovery-environment"),
        (keys::DISCOVERY_LOCATION, "discovery-location"),
        (keys::DISCOVERY_VERSION, "discovery-version"),
        (keys::ATTRIBUTE_PREFIX, "attribute-"),
    ];
    for (key, name) in table {
        assert_eq!(key, format!("k8s.mesosphere.io/{name}"));
    }
}
