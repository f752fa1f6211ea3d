//! A scheduler, the master and the embedded agent: one command task from offer to the acknowledged end.

use std::time::Duration;

use clap::Parser;
use km_mesos::{agent, master::Flags};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::*;

#[derive(Parser)]
struct AgentLine {
    #[command(flatten)]
    flags: agent::Flags,
}

#[tokio::test]
async fn a_command_runs_and_ends() {
    // M180, M223
    let master = Master::start(Flags { allocation_interval: Duration::from_millis(50), ..Flags::default() }).await;
    let directory = tempfile::tempdir().expect("a directory");
    let flags = AgentLine::parse_from([
        "agent",
        "--port=0",
        "--resources=cpus:2;mem:1024;disk:1024;ports:[31000-31010]",
        &format!("--master={}", master.authority()),
        &format!("--work-dir={}", directory.path().display()),
    ])
    .flags;
    let stop = CancellationToken::new();
    let agent = agent::start(flags, stop.clone()).await.expect("the agent starts");
    let mut stream = master.subscribe(None).await;
    let offer = stream.next_of("OFFERS").await["offers"]["offers"][0].clone();
    let amount = |name: &str, value: f64| json!({"name": name, "type": "SCALAR", "scalar": {"value": value}});
    let task = json!({
        "name": "t",
        "task_id": {"value": "t"},
        "agent_id": offer["agent_id"],
        "resources": [amount("cpus", 0.5), amount("mem", 64.0)],
        "command": {"value": "exit 0"},
    });
    let call = |body: Value| {
        let mut body = body;
        body["framework_id"] = json!({"value": stream.id});
        master.call(&body).header("Mesos-Stream-Id", &stream.stream_id)
    };
    let accept = json!({
        "type": "ACCEPT",
        "accept": {"offer_ids": [offer["id"]], "operations": [{"type": "LAUNCH", "launch": {"task_infos": [task]}}]},
    });
    assert_eq!(send(call(accept)).await.status(), 202);
    let (id, stream_id) = (stream.id.clone(), stream.stream_id.clone());
    let mut states = Vec::new();
    while states.last().is_none_or(|state| state != "TASK_FINISHED") {
        let status = stream.next_of("UPDATE").await["update"]["status"].clone();
        let acknowledge = json!({
            "type": "ACKNOWLEDGE",
            "framework_id": {"value": id},
            "acknowledge": {"agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": status["uuid"]},
        });
        assert_eq!(send(master.call(&acknowledge).header("Mesos-Stream-Id", &stream_id)).await.status(), 202);
        states.push(status["state"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(states, ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]);
    let tasks: Value = send(master.operator(&json!({"type": "GET_TASKS"}))).await.json().await.expect("JSON");
    assert_eq!(tasks["get_tasks"]["completed_tasks"][0]["state"], "TASK_FINISHED");
    stop.cancel();
    tokio::time::timeout(PATIENCE, agent.task).await.expect("it ends in time").expect("no panic").expect("no error");
    master.end().await;
}
