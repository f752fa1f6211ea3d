//! Creating, deleting, looking at pods; registration; callbacks that only log.

use std::convert::Infallible;

use km_kube::selector::LabelSelector;
use km_mesos_proto::v1::{self, TaskState};
use km_scheduler::embed::{Error, Scheduler, fcfs};
use serde_json::json;

use super::{Call, Recorder, Stage, big_offer, eventually, executor, host, key, pod, status};

fn names(stage: &Stage, selector: &str) -> Vec<String> {
    let pods = stage.scheduler.list_pods(&LabelSelector::parse(selector).unwrap());
    pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
}

fn master(id: &str) -> v1::MasterInfo {
    v1::MasterInfo { id: id.to_owned(), ..v1::MasterInfo::default() }
}

#[test]
fn a_fresh_scheduler_is_unregistered_and_empty() {
    let stage = Stage::new();
    assert!(!stage.scheduler.is_registered() && stage.scheduler.framework_id().is_none());
    assert!(names(&stage, "").is_empty() && stage.scheduler.offers().is_empty() && stage.scheduler.slaves().is_empty());
    assert_eq!(stage.launch("web", "o1", "a1").executor, Some(executor()));
}

#[test]
fn a_scheduled_pod_is_launched_with_one_call() {
    let stage = Stage::new();
    let task = stage.launch("web", "o1", "a1");
    assert_eq!(stage.driver.calls(), [Call::Launch(vec!["o1".into()], vec![task.clone()])]);
    assert_eq!((task.agent_id.value.as_str(), task.name.as_str()), ("a1", "PodTask"));

    let twice = stage.scheduler.create_pod(&key("web"));
    assert!(matches!(twice, Err(Error::AlreadyLaunched(_))), "{twice:?}");
    stage.update(&task, TaskState::TaskRunning);
    let running = stage.scheduler.create_pod(&key("web"));
    assert!(matches!(running, Err(Error::AlreadyLaunched(_))), "{running:?}");
    let unknown = stage.scheduler.create_pod(&key("other"));
    assert!(matches!(unknown, Err(Error::NotScheduled(_))), "{unknown:?}");
    assert_eq!(stage.driver.calls().len(), 1);
}

#[test]
fn a_pod_without_a_machine_is_not_launched() {
    let stage = Stage::new();
    let waiting = stage.schedule(pod("web"), &["host-a1"]);
    eventually("the pod waits", || stage.scheduler.get_pod(&key("web")).is_ok());
    let early = stage.scheduler.create_pod(&key("web"));
    assert!(matches!(early, Err(Error::NotScheduled(_))), "{early:?}");
    stage.scheduler.resource_offers(vec![big_offer("o1", "a1")]);
    waiting.join().unwrap().unwrap();

    stage.scheduler.offer_rescinded("o1".into());
    let late = stage.scheduler.create_pod(&key("web"));
    assert!(matches!(late, Err(Error::OfferGone(_))), "{late:?}");
    assert!(stage.driver.calls().is_empty());
    // It waits again and takes the next offer.
    stage.scheduler.resource_offers(vec![big_offer("o2", "a1")]);
    stage.scheduler.create_pod(&key("web")).unwrap();
    assert!(matches!(&stage.driver.calls()[..], [Call::Launch(offers, _)] if offers[..] == ["o2"]));
}

#[test]
fn without_a_driver_or_with_a_broken_one_it_says_so() {
    let scheduler = Scheduler::new(executor(), fcfs);
    scheduler.resource_offers(vec![big_offer("o1", "a1")]);
    scheduler.schedule(pod("web"), || Ok::<_, Infallible>(vec![host("a1")])).unwrap();
    assert!(matches!(scheduler.create_pod(&key("web")), Err(Error::NoDriver)));
    scheduler.set_driver(std::sync::Arc::new(Recorder { broken: true, ..Recorder::default() }));
    let refused = scheduler.create_pod(&key("web"));
    assert!(matches!(&refused, Err(Error::Driver(error)) if error.to_string() == "broken"), "{refused:?}");
    // Nothing was launched, so the name is free again.
    assert!(matches!(scheduler.get_pod(&key("web")), Err(Error::UnknownPod(_))));
}

#[test]
fn only_a_running_pod_is_killed() {
    let stage = Stage::new();
    let task = stage.launch("web", "o1", "a1");
    let before = stage.driver.calls().len();
    let pending = stage.scheduler.delete_pod(&key("web"));
    assert!(matches!(pending, Err(Error::NotRunning(_))), "{pending:?}");
    let unknown = stage.scheduler.delete_pod(&key("other"));
    assert!(matches!(unknown, Err(Error::UnknownPod(_))), "{unknown:?}");
    assert_eq!(stage.driver.calls().len(), before);

    stage.update(&task, TaskState::TaskRunning);
    stage.scheduler.delete_pod(&key("web")).unwrap();
    assert_eq!(stage.driver.calls().last(), Some(&Call::Kill(task.task_id.value.clone())));
    stage.update(&task, TaskState::TaskKilled);
    let gone = stage.scheduler.delete_pod(&key("web"));
    assert!(matches!(gone, Err(Error::UnknownPod(_))), "{gone:?}");
}

#[test]
fn a_pod_is_shown_until_it_has_finished() {
    let stage = Stage::new();
    let task = stage.launch("web", "o1", "a1");
    let shown = stage.scheduler.get_pod(&key("web")).unwrap();
    assert!(shown.status.and_then(|status| status.phase).is_none());

    stage.update(&task, TaskState::TaskRunning);
    let shown = stage.scheduler.get_pod(&key("web")).unwrap();
    assert_eq!(shown.status.and_then(|status| status.phase).as_deref(), Some("Running"));
    assert_eq!(shown.spec.and_then(|spec| spec.node_name).as_deref(), Some("host-a1"));

    stage.update(&task, TaskState::TaskFinished);
    let finished = stage.scheduler.get_pod(&key("web"));
    assert!(matches!(finished, Err(Error::Finished(_))), "{finished:?}");
    let unknown = stage.scheduler.get_pod(&key("other"));
    assert!(matches!(unknown, Err(Error::UnknownPod(_))), "{unknown:?}");
}

#[test]
fn pods_are_listed_running_first_by_their_labels() {
    let stage = Stage::new();
    stage.launch("pending", "o1", "a1");
    let running = stage.launch("running", "o2", "a1");
    let finished = stage.launch("finished", "o3", "a1");
    stage.update(&running, TaskState::TaskRunning);
    stage.update(&finished, TaskState::TaskRunning);
    stage.update(&finished, TaskState::TaskFinished);
    let table: [(&str, &[&str]); 4] = [
        ("", &["running", "pending"]),
        ("app=pending", &["pending"]),
        ("app in (running,finished)", &["running"]),
        ("app=none", &[]),
    ];
    for (selector, expected) in table {
        assert_eq!(names(&stage, selector), expected, "{selector:?}");
    }
}

#[test]
fn a_pod_is_never_changed() {
    let stage = Stage::new();
    assert!(matches!(stage.scheduler.update_pod(&pod("web")), Err(Error::NotImplemented)));
    stage.launch("web", "o1", "a1");
    assert!(matches!(stage.scheduler.update_pod(&pod("web")), Err(Error::NotImplemented)));
}

#[test]
fn registration_comes_goes_and_comes_back() {
    let stage = Stage::new();
    stage.scheduler.registered("framework".into(), master("m1"));
    assert!(stage.scheduler.is_registered());
    assert_eq!(stage.scheduler.framework_id(), Some("framework".into()));
    assert_eq!(stage.scheduler.master().map(|master| master.id).as_deref(), Some("m1"));
    stage.launch("web", "o1", "a1");
    stage.scheduler.resource_offers(vec![big_offer("o2", "a1")]);

    stage.scheduler.disconnected();
    assert!(!stage.scheduler.is_registered());
    // Offers that are held stay usable.
    stage.schedule(pod("second"), &["host-a1"]).join().unwrap().unwrap();

    stage.scheduler.reregistered(master("m2"));
    assert!(stage.scheduler.is_registered());
    assert_eq!(stage.scheduler.framework_id(), Some("framework".into()));
    assert_eq!(stage.scheduler.master().map(|master| master.id).as_deref(), Some("m2"));
    assert_eq!(names(&stage, ""), ["web", "second"]);
}

#[test]
fn callbacks_that_only_log_change_nothing() {
    let stage = Stage::new();
    let task = stage.launch("web", "o1", "a1");
    stage.update(&task, TaskState::TaskRunning);
    stage.scheduler.resource_offers(vec![big_offer("o2", "a1")]);
    type Callback<'a> = (&'a str, &'a dyn Fn(&Scheduler));
    let table: [Callback<'_>; 6] = [
        ("error", &|scheduler| scheduler.error("broken")),
        ("executor lost", &|scheduler| scheduler.executor_lost(&"executor".into(), &"a1".into(), 1)),
        ("unknown executor lost", &|scheduler| scheduler.executor_lost(&"x".into(), &"y".into(), -1)),
        ("slave lost", &|scheduler| scheduler.slave_lost(&"a1".into())),
        ("unknown slave lost", &|scheduler| scheduler.slave_lost(&"y".into())),
        ("message", &|scheduler| scheduler.framework_message(&"executor".into(), &"a1".into(), b"\xff hello")),
    ];
    for (what, call) in table {
        call(&stage.scheduler);
        assert_eq!(names(&stage, ""), ["web"], "{what}");
        assert_eq!(stage.scheduler.offers().len(), 1, "{what}");
        assert_eq!(stage.driver.calls().len(), 1, "{what}");
    }
}

#[test]
fn status_updates_move_tasks() {
    use TaskState::{TaskFailed, TaskFinished, TaskKilled, TaskLost, TaskRunning, TaskStaging, TaskStarting};
    // Updates in order, and what is shown after the last: a phase, `pending`, or the error.
    let table: [(&[TaskState], &str); 11] = [
        (&[], "pending"),
        (&[TaskStaging], "pending"),
        (&[TaskStaging, TaskStarting], "pending"),
        (&[TaskRunning], "Running"),
        (&[TaskRunning, TaskStarting], "Running"),
        (&[TaskRunning, TaskFinished], "finished"),
        (&[TaskFailed], "unknown"),
        (&[TaskKilled], "unknown"),
        (&[TaskLost], "unknown"),
        (&[TaskRunning, TaskLost], "unknown"),
        (&[TaskRunning, TaskFinished, TaskFailed], "finished"),
    ];
    for (updates, expected) in table {
        let stage = Stage::new();
        let task = stage.launch("web", "o1", "a1");
        updates.iter().for_each(|state| stage.update(&task, *state));
        let shown = match stage.scheduler.get_pod(&key("web")) {
            Ok(pod) => pod.status.and_then(|status| status.phase).unwrap_or_else(|| "pending".to_owned()),
            Err(Error::Finished(_)) => "finished".to_owned(),
            Err(Error::UnknownPod(_)) => "unknown".to_owned(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(shown, expected, "{updates:?}");
    }
}

#[test]
fn a_running_update_tells_of_the_containers_and_strangers_are_ignored() {
    let stage = Stage::new();
    let task = stage.launch("web", "o1", "a1");
    let mut update = status(&task, TaskState::TaskRunning);
    update.agent_id = Some("never-seen".into());
    stage.scheduler.status_update(update.clone());
    assert!(stage.scheduler.get_pod(&key("web")).unwrap().status.is_none(), "an agent without offers is not believed");

    let mut stranger = status(&task, TaskState::TaskRunning);
    stranger.task_id = "never-launched".into();
    stage.scheduler.status_update(stranger);
    assert_eq!(names(&stage, ""), ["web"]);

    let said = json!({ "status": { "containerStatuses": [
        { "name": "main", "image": "none", "imageID": "x", "ready": true, "restartCount": 0 },
    ] } });
    update.agent_id = Some("a1".into());
    update.data = Some(serde_json::to_vec(&said).unwrap());
    stage.scheduler.status_update(update.clone());
    let shown = stage.scheduler.get_pod(&key("web")).unwrap().status.unwrap();
    assert_eq!(shown.phase.as_deref(), Some("Running"));
    assert!(shown.container_statuses.unwrap()[0].ready);
    update.data = Some(b"no json".to_vec());
    stage.scheduler.status_update(update);
    assert!(stage.scheduler.get_pod(&key("web")).is_ok(), "data that can't be read does no harm");
}
