//! Schedulers that are killed and replaced while pods are being created.

use std::collections::BTreeMap;

use km_testkit::eventually;

use crate::{setup::Setup, stage::Stage, workload::Workload};

#[test]
fn no_pod_runs_twice_when_schedulers_are_replaced_under_load() {
    let mut stage = Stage::set(Setup::default());
    let (kubectl, operator) = (stage.kubectl.clone(), stage.operator);
    let load = Workload::of("load", 30);
    load.apply(&kubectl);
    // Each scheduler is killed in the middle of its work: some pods are launched, some wait.
    for launched in [1, 12] {
        eventually(&format!("{launched} pods are launched"), || match operator.live_tasks()?.len() {
            count if count >= launched => Ok(()),
            count => Err(format!("{count} tasks")),
        });
        stage.restart_scheduler();
    }
    load.runs(&kubectl);
    stage.live_tasks_are_bound_pods();

    // Every task that ever ran, by its pod's name: names of a deployment's pods are never used again.
    let tasks = operator.json("/master/tasks?limit=10000").unwrap();
    let mut ran: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for task in tasks["tasks"].as_array().unwrap() {
        let statuses = task["statuses"].as_array().unwrap();
        if statuses.iter().any(|status| status["state"] == "TASK_RUNNING") {
            let text = |field: &str| task[field].as_str().unwrap().to_owned();
            ran.entry(text("name")).or_default().push(text("id"));
        }
    }
    ran.retain(|_, tasks| tasks.len() > 1);
    assert!(ran.is_empty(), "pods that ran in several tasks: {ran:?}");
    for pod in load.pods(&kubectl).unwrap() {
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0, "{}", pod["metadata"]["name"]);
    }
    stage.strike();
}
