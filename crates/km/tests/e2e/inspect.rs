//! What the scheduler tells about itself, and replacing executors after a change of their configuration.

use km_testkit::{eventually, leftovers};
use serde_json::Value;

use crate::{Turn, cluster, example, hello};

/// What a `km` command about the cluster prints; it must succeed.
#[track_caller]
fn km(turn: &Turn, line: &str) -> String {
    let output = turn.cluster.km(line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "km {line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Exit code and stderr of a command that must fail.
#[track_caller]
fn fails(turn: &Turn, line: &str) -> (i32, String) {
    let output = turn.cluster.km(line).output().unwrap();
    assert!(!output.status.success(), "km {line} should fail");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn json(turn: &Turn, line: &str) -> Value {
    serde_json::from_str(&km(turn, line)).unwrap()
}

const HUGE: &str = "
apiVersion: v1
kind: Pod
metadata: { name: huge }
spec:
  containers:
  - { name: main, image: localhost/km/hello:v1, resources: { requests: { cpu: '640' } } }
";

#[test]
fn the_scheduler_tells_its_tasks_and_offers_and_why_a_pod_waits() {
    let mut turn = cluster(&["--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    let tasks = json(&turn, "tasks -o json");
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(4), "{tasks}");
    let table = km(&turn, "tasks");
    assert!(table.starts_with("POD") && table.matches("running").count() == 4, "{table}");

    let pod = kubectl.run("get pods -l app=hello -o jsonpath={.items[0].metadata.name}");
    let said = km(&turn, &format!("explain pod default/{pod}"));
    assert!(said.contains("runs on agent-") && said.contains("as task pod."), "{said}");

    kubectl.apply(HUGE);
    let explained = eventually("the reason is found", || {
        let page = json(&turn, "explain pod huge -o json");
        if page["message"].is_string() { Ok(page) } else { Err(page.to_string()) }
    });
    assert_eq!(explained["state"], "waits for a place");
    let agents = explained["agents"].as_array().cloned().unwrap_or_default();
    assert_eq!(agents.len(), 2);
    assert!(agents.iter().all(|agent| agent["why"] == "Insufficient cpu"), "{agents:?}");
    let said = km(&turn, "explain pod huge");
    assert!(said.contains("the largest agent has") && said.contains("offers asked"), "{said}");

    let (code, said) = fails(&turn, "explain pod default/nobody");
    assert!(code == 1 && said.contains("there is no pod default/nobody"), "{code} {said}");
    let (code, said) = fails(&turn, "explain pod a/b/c");
    assert!(code == 64 && said.contains("expected NAMESPACE/NAME"), "{code} {said}");
    let (code, said) = fails(&turn, "tasks --scheduler=127.0.0.1:1");
    assert!(code == 69 && said.contains("doesn't answer"), "{code} {said}");

    kubectl.run("delete pod huge --grace-period=0");
    eventually("the offers went back", || {
        let page = json(&turn, "offers -o json");
        let declined = page["declined"].as_array().map_or(0, Vec::len);
        if declined == 2 && page["asked"]["suppressed"] == true { Ok(()) } else { Err(page.to_string()) }
    });
    let table = km(&turn, "offers");
    assert!(table.contains("declined") && table.contains("suppressed"), "{table}");
    assert!(km(&turn, "reconcile").contains("explicit"));
    assert!(km(&turn, "reconcile --implicit").contains("implicit"));
    assert!(km(&turn, "drain-executors").contains("all executors are of the present configuration"));
    let (code, said) = fails(&turn, "drain-executors --agents=nobody");
    assert!(code == 64 && said.contains("no agent nobody; known are agent-1, agent-2"), "{code} {said}");
    turn.cluster.stop();
}

#[test]
fn a_new_executor_configuration_refuses_no_agent_and_drain_executors_brings_it() {
    let mut turn = cluster(&["--runtime=auto", "--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    let executors = |turn: &Turn| -> Vec<String> {
        let nodes = turn.cluster.kubectl.json("get nodes").unwrap();
        let id = "/metadata/annotations/k8s.mesosphere.io~1executorId";
        nodes["items"].as_array().unwrap().iter().map(|node| node.pointer(id).unwrap().to_string()).collect()
    };
    let before = executors(&turn);
    turn.cluster.crash();
    turn.cluster.start_again_with(&["--runtime=oci"]);
    // Old and new pods run on the executors that are there.
    kubectl.run("scale deployment hello --replicas=6");
    kubectl.run("rollout status deployment hello --timeout=120s");
    assert_eq!(executors(&turn), before);
    assert_eq!(km(&turn, "drain-executors --dry-run"), "agent-1\nagent-2\n");

    assert_eq!(km(&turn, "drain-executors"), "agent-1\nagent-2\n");
    kubectl.run("rollout status deployment hello --timeout=120s");
    eventually("the new executor runs", || {
        let now = executors(&turn);
        if now.iter().any(|executor| !before.contains(executor)) { Ok(()) } else { Err(format!("{now:?}")) }
    });
    assert!(km(&turn, "drain-executors").contains("all executors are of the present configuration"));
    assert!(!kubectl.run("get nodes").contains("SchedulingDisabled"), "the nodes are open again");
    hello::invariant_live_tasks_are_bound_pods(&turn.cluster.port("/mesos_port"), &kubectl);
    turn.cluster.stop();
    assert!(leftovers(&turn.cluster.data_dir()).is_empty());
}
