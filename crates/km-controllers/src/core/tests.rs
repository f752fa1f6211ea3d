//! Tables and properties of `core`.

use super::simulation::*;
use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Deliver(usize),
    Begin,
    Act(usize),
    KillPod(usize),
    Kubelet(usize),
    Trouble(Trouble),
    Wait(u64),
}

fn steps(kill: bool) -> impl Strategy<Value = Vec<Step>> {
    let trouble = prop::sample::select(vec![Trouble::Refused, Trouble::AnswerLost, Trouble::RequestLost]);
    let kill = if kill { 2 } else { 0 };
    prop::collection::vec(
        prop_oneof![
            6 => (0..8_usize).prop_map(Step::Deliver),
            6 => Just(Step::Begin),
            8 => (0..8_usize).prop_map(Step::Act),
            kill => (0..8_usize).prop_map(Step::KillPod),
            4 => (0..8_usize).prop_map(Step::Kubelet),
            1 => trouble.prop_map(Step::Trouble),
            1 => (0..2000_u64).prop_map(Step::Wait),
        ],
        0..120,
    )
}

fn take(simulation: &mut Simulation, step: &Step) {
    match step {
        Step::Deliver(choice) => {
            simulation.deliver(*choice);
        }
        Step::Begin => {
            simulation.begin();
        }
        Step::Act(choice) => {
            simulation.act(*choice);
        }
        Step::KillPod(choice) => {
            let pods = simulation.api.active_pods();
            if !pods.is_empty() {
                simulation.api.remove(&Resource::pods(), &pods[choice % pods.len()].key());
            }
        }
        Step::Kubelet(choice) => {
            let pods = simulation.api.all(&Resource::pods());
            if !pods.is_empty() {
                simulation.kubelet(&pods[choice % pods.len()]);
            }
        }
        Step::Trouble(trouble) => simulation.api.trouble.push_back(*trouble),
        Step::Wait(milliseconds) => simulation.pass(Duration::from_millis(*milliseconds)),
    }
}

fn create(simulation: &mut Simulation, resource: &Resource, object: serde_json::Value) {
    simulation.api.create(resource, "n", object).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_replica_set_never_has_too_many_pods_and_comes_to_the_right_number(steps in steps(true), replicas in 0..6_usize) {
        let mut simulation = Simulation::new();
        create(&mut simulation, &Resource::replica_sets(), replica_set("r", replicas));
        for step in &steps {
            take(&mut simulation, step);
            prop_assert!(simulation.api.active_pods().len() <= replicas);
        }
        simulation.settle(true);
        prop_assert_eq!(simulation.api.active_pods().len(), replicas);
        let status = &simulation.spec_of(&Resource::replica_sets(), "r")["status"];
        prop_assert_eq!(&status["readyReplicas"], &json!(replicas));
    }

    #[test]
    fn resizing_in_the_middle_ends_at_the_last_size(before in steps(true), after in steps(true), sizes in (0..6_usize, 0..6_usize)) {
        let mut simulation = Simulation::new();
        create(&mut simulation, &Resource::replica_sets(), replica_set("r", sizes.0));
        for step in &before {
            take(&mut simulation, step);
        }
        simulation.api.change(&Resource::replica_sets(), &Key::new("n", "r"), |set| set["spec"]["replicas"] = json!(sizes.1));
        for step in &after {
            take(&mut simulation, step);
            prop_assert!(simulation.api.active_pods().len() <= sizes.0.max(sizes.1));
        }
        simulation.settle(true);
        prop_assert_eq!(simulation.api.active_pods().len(), sizes.1);
    }

    #[test]
    fn a_rolling_update_keeps_its_limits_in_any_order(steps in steps(false), replicas in 1..6_usize, surge in 0..3_usize, unavailable in 0..3_usize) {
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        let mut simulation = Simulation::new();
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        create(&mut simulation, &Resource::deployments(), deployment(replicas, strategy));
        simulation.settle(true);
        prop_assert_eq!(simulation.api.active_pods().len(), replicas);
        simulation.api.change(&Resource::deployments(), &Key::new("n", "d"), |d| d["spec"]["template"] = template("v2"));
        let least = replicas.saturating_sub(unavailable);
        for step in &steps {
            take(&mut simulation, step);
            // As upstream counts: what the sets ask for. A set scaled down a moment ago may still have its pods.
            let sets = simulation.api.all(&Resource::replica_sets());
            let asked: i64 = sets.iter().filter_map(|set| integer(set, "/spec/replicas")).sum();
            prop_assert!(asked <= i64::try_from(replicas + surge).unwrap(), "{} pods asked for", asked);
            let pods = simulation.api.active_pods();
            prop_assert!(pods.iter().filter(|pod| pod.is_ready()).count() >= least);
        }
        simulation.settle(true);
        check_rolled_out(&simulation, replicas, "v2");
    }
}

fn check_rolled_out(simulation: &Simulation, replicas: usize, image: &str) {
    let pods = simulation.api.all(&Resource::pods());
    assert_eq!(pods.len(), replicas);
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == json!(image)));
    let status = simulation.spec_of(&Resource::deployments(), "d")["status"].clone();
    assert_eq!(
        (&status["updatedReplicas"], &status["availableReplicas"], &status["unavailableReplicas"]),
        (&json!(replicas), &json!(replicas), &json!(0))
    );
    let conditions = status["conditions"].as_array().unwrap();
    let of = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind).unwrap()["reason"].clone();
    assert_eq!(
        (of("Available"), of("Progressing")),
        (json!("MinimumReplicasAvailable"), json!("NewReplicaSetAvailable"))
    );
}

#[test]
fn recreate_stops_all_old_pods_before_the_first_new_one() {
    let mut simulation = Simulation::new();
    create(&mut simulation, &Resource::deployments(), deployment(3, json!({"type": "Recreate"})));
    simulation.settle(true);
    simulation.api.change(&Resource::deployments(), &Key::new("n", "d"), |d| d["spec"]["template"] = template("v2"));
    simulation.settle(false);
    let pods = simulation.api.all(&Resource::pods());
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == json!("v1")), "old pods are still going");
    simulation.settle(true);
    check_rolled_out(&simulation, 3, "v2");
}

#[test]
fn going_back_to_an_old_template_uses_its_set_again_as_the_newest_revision() {
    let mut simulation = Simulation::new();
    create(&mut simulation, &Resource::deployments(), deployment(2, json!({})));
    for image in ["v1", "v2", "v1"] {
        simulation
            .api
            .change(&Resource::deployments(), &Key::new("n", "d"), |d| d["spec"]["template"] = template(image));
        simulation.settle(true);
        check_rolled_out(&simulation, 2, image);
    }
    let sets = simulation.api.all(&Resource::replica_sets());
    assert_eq!(sets.len(), 2);
    let mut revisions: Vec<&str> =
        sets.iter().map(|set| text(set, "/metadata/annotations/deployment.kubernetes.io~1revision")).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, ["2", "3"]);
    let deployment = simulation.spec_of(&Resource::deployments(), "d");
    assert_eq!(text(&deployment, "/metadata/annotations/deployment.kubernetes.io~1revision"), "3");
}

#[test]
fn old_sets_beyond_the_history_limit_go() {
    let mut simulation = Simulation::new();
    let mut object = deployment(1, json!({}));
    object["spec"]["revisionHistoryLimit"] = json!(1);
    create(&mut simulation, &Resource::deployments(), object);
    for image in ["v1", "v2", "v3", "v4"] {
        simulation
            .api
            .change(&Resource::deployments(), &Key::new("n", "d"), |d| d["spec"]["template"] = template(image));
        simulation.settle(true);
    }
    assert_eq!(simulation.api.all(&Resource::replica_sets()).len(), 2);
    check_rolled_out(&simulation, 1, "v4");
}

#[test]
fn a_deployment_is_resized_and_paused() {
    let mut simulation = Simulation::new();
    create(&mut simulation, &Resource::deployments(), deployment(2, json!({})));
    simulation.settle(true);
    let key = Key::new("n", "d");
    simulation.api.change(&Resource::deployments(), &key, |d| d["spec"]["replicas"] = json!(5));
    simulation.settle(true);
    check_rolled_out(&simulation, 5, "v1");
    simulation.api.change(&Resource::deployments(), &key, |d| {
        d["spec"]["paused"] = json!(true);
        d["spec"]["template"] = template("v2");
        d["spec"]["replicas"] = json!(3);
    });
    simulation.settle(true);
    let pods = simulation.api.all(&Resource::pods());
    assert!(pods.len() == 3 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == json!("v1")));
    simulation.api.change(&Resource::deployments(), &key, |d| d["spec"]["paused"] = json!(false));
    simulation.settle(true);
    check_rolled_out(&simulation, 3, "v2");
}

#[test]
fn a_roll_out_that_does_not_move_is_reported() {
    let mut simulation = Simulation::new();
    let mut object = deployment(1, json!({}));
    object["spec"]["progressDeadlineSeconds"] = json!(60);
    create(&mut simulation, &Resource::deployments(), object);
    simulation.settle(false);
    let status = &simulation.spec_of(&Resource::deployments(), "d")["status"];
    let progressing = status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Progressing").unwrap();
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("False"), &json!("ProgressDeadlineExceeded")));
}

#[test]
fn replication_controllers_adopt_and_release() {
    let mut simulation = Simulation::new();
    for _ in 0..2 {
        create(
            &mut simulation,
            &Resource::pods(),
            json!({"metadata": {"generateName": "free-", "labels": {"app": "x"}}, "spec": {"containers": []}}),
        );
    }
    let controller = json!({"metadata": {"name": "rc"}, "spec": {"replicas": 3, "selector": {"app": "x"}, "template": template("a")}});
    create(&mut simulation, &Resource::replication_controllers(), controller);
    simulation.settle(true);
    let pods = simulation.api.active_pods();
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| controller_of(&pod.owners).unwrap()["kind"] == "ReplicationController"));
    simulation.api.change(&Resource::pods(), &pods[0].key(), |pod| pod["metadata"]["labels"]["app"] = json!("y"));
    simulation.settle(true);
    let pods = simulation.api.active_pods();
    assert_eq!((pods.len(), pods.iter().filter(|pod| pod.owners.is_empty()).count()), (4, 1));
}

#[test]
fn a_refused_creation_shows_in_the_status() {
    let mut simulation = Simulation::new();
    simulation.api.trouble.push_back(Trouble::Refused);
    create(&mut simulation, &Resource::replica_sets(), replica_set("r", 1));
    while simulation.deliver(0) {}
    while simulation.begin() {}
    while simulation.act(0) {}
    while simulation.deliver(0) {}
    simulation.pass(Duration::from_millis(60));
    assert!(simulation.begin());
    simulation.act(0);
    simulation.act(0);
    let status = &simulation.spec_of(&Resource::replica_sets(), "r")["status"];
    assert_eq!(status["conditions"][0]["message"], json!("refused: quota"));
    simulation.settle(true);
    let status = &simulation.spec_of(&Resource::replica_sets(), "r")["status"];
    assert_eq!((&status["conditions"], &status["replicas"]), (&json!([]), &json!(1)));
}

#[test]
fn a_namespace_is_born_with_an_account_and_dies_after_its_content_pods_first() {
    let mut simulation = Simulation::new();
    let key = Key::new("", "n");
    let namespaces = Resource::namespaces();
    simulation
        .api
        .create(&namespaces, "", json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}}))
        .unwrap();
    create(&mut simulation, &Resource::replica_sets(), replica_set("r", 2));
    simulation.settle(true);
    assert_eq!(simulation.api.all(&Resource::service_accounts()).len(), 1);
    assert_eq!(simulation.api.all(&Resource::config_maps())[0]["data"]["ca.crt"], json!("PEM"));
    simulation
        .api
        .change(&namespaces, &key, |one| one["metadata"]["deletionTimestamp"] = json!("2026-01-01T02:00:00Z"));
    // Without kubelets the pods stay; nothing else may go meanwhile.
    for _ in 0..2_000 {
        simulation.deliver(0);
        simulation.begin();
        simulation.act(0);
        simulation.pass(Duration::from_millis(5));
    }
    assert!(
        simulation.api.all(&Resource::pods()).iter().all(|pod| !text(pod, "/metadata/deletionTimestamp").is_empty())
    );
    assert_eq!(simulation.api.all(&Resource::config_maps()).len(), 1);
    simulation.settle(true);
    assert!(simulation.api.objects.is_empty(), "{:?}", simulation.api.objects.keys());
}

#[test]
fn deleting_a_deployment_takes_sets_and_pods_along() {
    for propagation in ["Background", "Foreground"] {
        let mut simulation = Simulation::new();
        create(&mut simulation, &Resource::deployments(), deployment(2, json!({})));
        simulation.settle(true);
        let uid = text(&simulation.spec_of(&Resource::deployments(), "d"), "/metadata/uid").to_owned();
        let delete = Action::Delete {
            resource: Resource::deployments(),
            namespace: "n".to_owned(),
            name: "d".to_owned(),
            uid,
            propagation: Some(propagation),
        };
        simulation.api.perform(&delete).unwrap();
        simulation.settle(true);
        assert!(simulation.api.objects.is_empty(), "{propagation}: {:?}", simulation.api.objects.keys());
    }
}

#[test]
fn orphaning_keeps_the_pods() {
    let mut simulation = Simulation::new();
    create(&mut simulation, &Resource::replica_sets(), replica_set("r", 2));
    simulation.settle(true);
    let uid = text(&simulation.spec_of(&Resource::replica_sets(), "r"), "/metadata/uid").to_owned();
    let delete = Action::Delete {
        resource: Resource::replica_sets(),
        namespace: "n".to_owned(),
        name: "r".to_owned(),
        uid,
        propagation: Some("Orphan"),
    };
    simulation.api.perform(&delete).unwrap();
    simulation.settle(true);
    let pods = simulation.api.active_pods();
    assert!(pods.len() == 2 && pods.iter().all(|pod| pod.owners.is_empty()));
    assert!(simulation.api.all(&Resource::replica_sets()).is_empty());
}
