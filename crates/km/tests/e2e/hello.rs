//! The README's first command and what a new user does next.

use std::{collections::BTreeSet, process::Command};

use km_testkit::{Kubectl, eventually};
use serde_json::Value;

use crate::{cluster, example};

#[test]
fn the_hello_example_runs_on_both_agents_scales_answers_and_goes() {
    let mut turn = cluster(&["--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    let printed = turn.cluster.output();
    assert!(printed.contains("✓ everything runs: 4 pods"), "{printed}");
    assert!(printed.contains("kubectl --context km get pods"), "{printed}");

    assert_eq!(nodes_of(&kubectl), BTreeSet::from(["agent-1".to_owned(), "agent-2".to_owned()]));
    invariant_live_tasks_are_bound_pods(&turn.cluster.port("/mesos_port"), &kubectl);

    service_answers_from_all_pods(&kubectl, 4);
    let pod = kubectl.run("get pods -l app=hello -o jsonpath={.items[0].metadata.name}");
    eventually("the pod logs its requests", || {
        let logs = kubectl.try_run(&format!("logs {pod}"))?;
        if logs.contains("GET /") { Ok(()) } else { Err(logs) }
    });

    kubectl.run("scale deployment hello --replicas=8");
    kubectl.run("rollout status deployment hello --timeout=60s");
    assert_eq!(ready_pods(&kubectl), 8);
    service_answers_from_all_pods(&kubectl, 8);

    kubectl.run("scale deployment hello --replicas=1");
    eventually("one pod is left", || match pods(&kubectl).len() {
        1 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    invariant_live_tasks_are_bound_pods(&turn.cluster.port("/mesos_port"), &kubectl);

    kubectl.run("delete deployment hello");
    eventually("no pod is left", || match pods(&kubectl).len() {
        0 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    invariant_live_tasks_are_bound_pods(&turn.cluster.port("/mesos_port"), &kubectl);
    turn.cluster.stop();
}

pub fn pods(kubectl: &Kubectl) -> Vec<Value> {
    let list = kubectl.json("get pods -l app=hello").unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

pub fn ready_pods(kubectl: &Kubectl) -> usize {
    let is_ready = |pod: &&Value| {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        conditions.is_some_and(|list| list.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
    };
    pods(kubectl).iter().filter(is_ready).count()
}

pub fn nodes_of(kubectl: &Kubectl) -> BTreeSet<String> {
    let name = |pod: &Value| pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("").to_owned();
    pods(kubectl).iter().map(name).collect()
}

/// The cluster IP answers from the host, and each pod answers some time.
#[track_caller]
pub fn service_answers_from_all_pods(kubectl: &Kubectl, count: usize) {
    let ip = kubectl.run("get service hello -o jsonpath={.spec.clusterIP}");
    let mut seen = BTreeSet::new();
    eventually("all pods answer through the service", || {
        let answer = get(&format!("http://{ip}/"))?;
        let pod = answer.lines().find(|line| line.starts_with("pod:")).unwrap_or(&answer).to_owned();
        seen.insert(pod);
        if seen.len() >= count { Ok(()) } else { Err(format!("only {seen:?}")) }
    });
}

/// One HTTP request with a deadline.
pub fn get(url: &str) -> Result<String, String> {
    let output = Command::new("curl").args(["-sS", "--fail", "--max-time", "3", url]).output();
    let output = output.map_err(|error| format!("cannot run curl: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Invariant 5 of the design: after quiet, the live tasks are the bound pods that have not ended, one each.
#[track_caller]
pub fn invariant_live_tasks_are_bound_pods(mesos_port: &u16, kubectl: &Kubectl) {
    eventually("live tasks are the bound pods", || {
        let state = get(&format!("http://127.0.0.1:{mesos_port}/master/tasks?limit=1000"))?;
        let state: Value = serde_json::from_str(&state).map_err(|error| error.to_string())?;
        let live = |task: &&Value| {
            matches!(task["state"].as_str(), Some("TASK_STAGING" | "TASK_STARTING" | "TASK_RUNNING" | "TASK_KILLING"))
        };
        let tasks: Vec<String> = state["tasks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(live)
            .filter_map(|task| task["id"].as_str())
            .map(str::to_owned)
            .collect();
        let list = kubectl.json("get pods -A")?;
        let bound = |pod: &&Value| {
            let phase = pod.pointer("/status/phase").and_then(Value::as_str);
            // Static pods have no tasks.
            let mirror = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
            pod.pointer("/spec/nodeName").is_some() && !mirror && !matches!(phase, Some("Succeeded" | "Failed"))
        };
        let task_of = |pod: &Value| {
            pod.pointer("/metadata/annotations/k8s.mesosphere.io~1taskId")
                .and_then(Value::as_str)
                .unwrap_or("none")
                .to_owned()
        };
        let pods: Vec<String> = list["items"].as_array().into_iter().flatten().filter(bound).map(task_of).collect();
        let as_set = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>();
        if as_set(&tasks) == as_set(&pods) && tasks.len() == pods.len() {
            Ok(())
        } else {
            Err(format!("tasks {tasks:?}, pods {pods:?}"))
        }
    });
}
