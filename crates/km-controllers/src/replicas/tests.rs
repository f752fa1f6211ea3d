//! Tables and properties of `replicas`.

use super::*;
use crate::core::Action;
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn set(replicas: usize) -> Set {
    let object = json!({"metadata": {"name": "r", "namespace": "n", "uid": "u", "generation": 2},
        "spec": {"replicas": replicas, "minReadySeconds": 10, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}},
        "status": {}});
    Set::read(&Resource::replica_sets(), &object).unwrap()
}

fn pod(name: &str) -> PodView {
    PodView {
        namespace: "n".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        owners: vec![set(0).reference()],
        node: "node".to_owned(),
        phase: "Running".to_owned(),
        created: "2026-01-01T00:00:00Z".parse().ok(),
        ready_since: "2026-01-01T00:00:00Z".parse().ok(),
        ..PodView::default()
    }
}

fn verbs(actions: &[Action]) -> Vec<&'static str> {
    actions.iter().map(Action::verb).collect()
}

#[test]
fn creates_what_is_missing_with_template_and_owner() {
    let plan = reconcile(&set(2), &[&pod("a")], true, None, now());
    assert_eq!(verbs(&plan.actions), ["create", "patch"]);
    let Action::Create { object, namespace, .. } = &plan.actions[0] else { panic!() };
    assert_eq!(namespace, "n");
    assert_eq!(
        object["metadata"],
        json!({"generateName": "r-", "namespace": "n", "labels": {"a": "b"}, "ownerReferences": [set(0).reference()]})
    );
    assert_eq!(object["spec"], json!({"containers": [{"name": "c"}]}));
    assert_eq!(verbs(&reconcile(&set(2), &[&pod("a")], false, None, now()).actions), ["patch"], "not while it waits");
}

#[test]
fn finished_and_going_pods_do_not_count_and_strangers_are_left_alone() {
    let failed = PodView { phase: "Failed".to_owned(), ..pod("failed") };
    let going = PodView { deleting: true, ..pod("going") };
    let mut stranger = pod("stranger");
    stranger.owners[0]["uid"] = json!("other");
    let plan = reconcile(&set(1), &[&failed, &going, &stranger], true, None, now());
    assert_eq!(verbs(&plan.actions), ["create", "patch"]);
}

#[test]
fn a_deleted_set_does_nothing_but_count() {
    let dying = Set { deleting: true, ..set(3) };
    let free = PodView { owners: Vec::new(), ..pod("free") };
    assert_eq!(verbs(&reconcile(&dying, &[&free], true, None, now()).actions), ["patch"]);
}

#[test]
fn the_least_valuable_pod_goes_first() {
    let at = |time: &str| time.parse().ok();
    let cases: Vec<(&str, PodView)> = vec![
        ("no node", PodView { node: String::new(), ..pod("z") }),
        ("pending", PodView { phase: "Pending".to_owned(), ..pod("z") }),
        ("not ready", PodView { ready_since: None, ..pod("z") }),
        ("cheap", PodView { deletion_cost: -1, ..pod("z") }),
        ("ready for less time", PodView { ready_since: at("2026-01-01T00:30:00Z"), ..pod("z") }),
        ("restarted", PodView { restarts: 1, ..pod("z") }),
        ("younger", PodView { created: at("2026-01-01T00:30:00Z"), ..pod("z") }),
    ];
    for (name, victim) in cases {
        let others = [pod("a"), pod("b")];
        let plan = reconcile(&set(2), &[&others[0], &others[1], &victim], true, None, now());
        let Action::Delete { uid, .. } = &plan.actions[0] else { panic!("{name}: {:?}", plan.actions) };
        assert_eq!((uid.as_str(), plan.actions.len()), ("z", 2), "{name}");
    }
    let crowded = [PodView { node: "one".to_owned(), ..pod("a") }, pod("b"), pod("c")];
    let plan = reconcile(&set(2), &crowded.iter().collect::<Vec<_>>(), true, None, now());
    assert!(matches!(&plan.actions[0], Action::Delete { uid, .. } if uid == "b"), "from the fuller node");
}

#[test]
fn availability_comes_after_the_wait() {
    let fresh = PodView { ready_since: "2026-01-01T00:59:57Z".parse().ok(), ..pod("a") };
    let plan = reconcile(&set(1), &[&fresh], true, None, now());
    let Action::Patch { patch, .. } = &plan.actions[0] else { panic!() };
    assert_eq!((&patch["status"]["readyReplicas"], &patch["status"]["availableReplicas"]), (&json!(1), &json!(0)));
    assert_eq!(plan.recheck, Some(Duration::from_secs(7)));
}
