//! On a real Apache Mesos 1.11: agents of different hostnames, and our API server, controllers and scheduler as processes of
//! their own. After each thing that happens, live tasks are the bound pods, and agents account for what they gave.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod authentication;
mod losses;
mod many;
mod operator;
mod roles;
mod setup;
mod stage;
mod takeover;
mod workload;

use std::collections::BTreeSet;

use km_testkit::{Kubectl, eventually};
use serde_json::Value;

use setup::Setup;
use stage::Stage;

#[test]
fn pods_run_on_apache_mesos_and_outlive_restarts_of_agent_master_and_scheduler() {
    let mut stage = Stage::set(Setup::default());
    let kubectl = stage.kubectl.clone();

    kubectl.run(&format!("apply -f {}", stage::example("hello.yaml")));
    kubectl.run("rollout status deployment hello --timeout=120s");
    assert_eq!(nodes(&kubectl), BTreeSet::from(["agent-0".to_owned(), "agent-1".to_owned()]));
    stage.live_tasks_are_bound_pods();

    let pod = kubectl.run("get pods -l app=hello -o jsonpath={.items[0].metadata.name}");
    service_answers(&kubectl, 4);
    eventually("the pod logs its requests", || match kubectl.try_run(&format!("logs {pod}"))? {
        log if log.contains("GET /") => Ok(()),
        log => Err(log),
    });

    kubectl.run("scale deployment hello --replicas=8");
    kubectl.run("rollout status deployment hello --timeout=120s");
    stage.live_tasks_are_bound_pods();

    let before = containers(&kubectl);
    stage.mesos("stop agent-0");
    stage.mesos("start agent-0");
    stage.agents_are_back();
    assert_eq!(containers(&kubectl), before, "an agent's restart loses no pod");
    stage.live_tasks_are_bound_pods();

    stage.mesos("stop master");
    stage.mesos("start master");
    stage.agents_are_back();
    stage.live_tasks_are_bound_pods();
    assert_eq!(containers(&kubectl), before, "the master's restart loses no pod");

    stage.restart_scheduler();
    stage.live_tasks_are_bound_pods();
    assert_eq!(containers(&kubectl), before, "the scheduler's restart loses no pod");

    kubectl.run("scale deployment hello --replicas=1");
    eventually("one pod is left", || match containers(&kubectl).len() {
        1 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    stage.live_tasks_are_bound_pods();

    kubectl.run("delete deployment hello");
    eventually("no pod is left", || match containers(&kubectl).len() {
        0 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    stage.live_tasks_are_bound_pods();
    stage.strike();
}

fn pods(kubectl: &Kubectl) -> Vec<Value> {
    kubectl.json("get pods -l app=hello").unwrap_or_default()["items"].as_array().cloned().unwrap_or_default()
}

fn nodes(kubectl: &Kubectl) -> BTreeSet<String> {
    pods(kubectl).iter().filter_map(|pod| pod.pointer("/spec/nodeName")?.as_str().map(str::to_owned)).collect()
}

fn containers(kubectl: &Kubectl) -> BTreeSet<String> {
    let id = |pod: &Value| {
        pod.pointer("/status/containerStatuses/0/containerID").and_then(Value::as_str).unwrap_or("none").to_owned()
    };
    pods(kubectl).iter().map(id).collect()
}

#[track_caller]
fn service_answers(kubectl: &Kubectl, count: usize) {
    let ip = kubectl.run("get service hello -o jsonpath={.spec.clusterIP}");
    let mut seen = BTreeSet::new();
    eventually("all pods answer through the service", || {
        let answer = stage::get(&format!("http://{ip}/"))?;
        seen.extend(answer.lines().find(|line| line.starts_with("pod:")).map(str::to_owned));
        if seen.len() >= count { Ok(()) } else { Err(format!("only {seen:?}")) }
    });
}
