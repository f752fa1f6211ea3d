//! The agent with real processes and sockets, and a master played by the test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails, in its helpers too")]

mod fake_master;
mod world;

use std::{collections::HashMap, fs, path::Path, time::Duration};

use futures::StreamExt;
use km_mesos_client::ExecutorClient;
use km_mesos_core::link::{AgentMessage, MasterMessage};
use km_mesos_proto::v1::{
    self, TaskState,
    executor::{Call, Event, call, event},
    task_status::{Reason, Source},
};
use tokio_util::sync::CancellationToken;

use world::{World, command, custom, framework_id};

/// Looks again and again until something is there.
async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The sandbox of the only run of an executor.
fn sandbox(work_dir: &Path, executor: &str) -> std::path::PathBuf {
    work_dir.join(format!("slaves/S0/frameworks/fw/executors/{executor}/runs/latest"))
}

/// A client for the executor whose command wrote its environment down.
async fn executor(work_dir: &Path, id: &str) -> ExecutorClient {
    let path = sandbox(work_dir, id).join("environment");
    let text = until(|| fs::read_to_string(&path).ok()).await;
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let variables: HashMap<String, String> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    ExecutorClient::from_env(&variables).unwrap()
}

/// Whether a process is there, and not merely waiting to be reaped.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

const WAITING_EXECUTOR: &str = "env > new; mv new environment; echo $$ > pid; exec sleep 1000";

fn update(task: &str, state: TaskState, uuid: u8) -> Call {
    let status = v1::TaskStatus {
        task_id: v1::TaskId { value: task.to_owned() },
        state: state.into(),
        source: Some(Source::Executor.into()),
        uuid: Some(vec![uuid; 16]),
        ..Default::default()
    };
    Call { r#type: Some(call::Type::Update.into()), update: Some(call::Update { status }), ..Default::default() }
}

async fn next(events: &mut km_mesos_client::executor::EventStream) -> Event {
    events.next().await.unwrap().unwrap()
}

/// What the agent's own process does without is not taken from containers, which are its children.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_huge_pages_though_its_agent_does_without() {
    nix::sys::prctl::set_thp_disable(true).unwrap();
    let mut world = World::start().await;
    world.run(vec![command("t", "sed -n 's/^THP_enabled:\\s*//p' /proc/self/status")]);
    for state in [TaskState::TaskStarting, TaskState::TaskRunning, TaskState::TaskFinished] {
        assert_eq!(world.update().await.state(), state);
    }
    assert_eq!(fs::read_to_string(sandbox(world.work_dir(), "t").join("stdout")).unwrap().trim_end(), "1");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_its_sandbox() {
    let mut world = World::start().await;
    world.run(vec![command("t", "echo hello; pwd; exit 0")]);
    for state in [TaskState::TaskStarting, TaskState::TaskRunning, TaskState::TaskFinished] {
        assert_eq!(world.update().await.state(), state);
    }
    let sandbox = sandbox(world.work_dir(), "t").canonicalize().unwrap();
    let stdout = fs::read_to_string(sandbox.join("stdout")).unwrap();
    assert_eq!(stdout, format!("hello\n{}\n", sandbox.display()));
    let state = world.get("/slave(1)/state").await;
    assert!(state.contains(r#""completed_tasks":[{"#), "{state}");
    let read = world.get(&format!("/files/read?path={}/stdout&offset=0", sandbox.display())).await;
    assert!(read.contains("hello"), "{read}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_killed_with_all_it_started() {
    let mut world = World::start().await;
    world.run(vec![command("t", "trap '' TERM; setsid sleep 1000 & echo $! > pid; while :; do sleep 1; done")]);
    assert_eq!(world.update().await.state(), TaskState::TaskStarting);
    assert_eq!(world.update().await.state(), TaskState::TaskRunning);
    let path = sandbox(world.work_dir(), "t").join("pid");
    let pid = until(|| fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).await;
    let grace = Some(v1::KillPolicy { grace_period: Some(v1::DurationInfo { nanoseconds: 50_000_000 }) });
    let task_id = v1::TaskId { value: "t".to_owned() };
    world.master.send(&MasterMessage::KillTask { framework_id: framework_id(), task_id, kill_policy: grace });
    let killed = world.update().await;
    assert_eq!((killed.state(), killed.message()), (TaskState::TaskKilled, "Command terminated with signal Killed"));
    assert!(!runs(&pid));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_executor_gets_its_task_and_its_updates_are_confirmed() {
    let mut world = World::start().await;
    world.run(vec![custom("t", "e", WAITING_EXECUTOR)]);
    let client = executor(world.work_dir(), "e").await;
    let (session, mut events) = client.subscribe(Vec::new(), Vec::new()).await.unwrap();
    let subscribed = next(&mut events).await.subscribed.unwrap();
    assert_eq!(subscribed.executor_info.executor_id.value, "e");
    assert_eq!(subscribed.agent_info.id.unwrap().value, "S0");
    assert_eq!(next(&mut events).await.launch.unwrap().task.task_id.value, "t");

    session.call(update("t", TaskState::TaskRunning, 1)).await.unwrap();
    assert_eq!(next(&mut events).await.acknowledged.unwrap().uuid, vec![1; 16]);
    let running = world.update().await;
    assert_eq!((running.state(), running.uuid()), (TaskState::TaskRunning, [1; 16].as_slice()));

    let task_id = v1::TaskId { value: "t".to_owned() };
    world.master.send(&MasterMessage::KillTask { framework_id: framework_id(), task_id, kill_policy: None });
    assert_eq!(next(&mut events).await.r#type(), event::Type::Kill);
    session.call(update("t", TaskState::TaskKilled, 2)).await.unwrap();
    assert_eq!(world.update().await.state(), TaskState::TaskKilled);

    let executor_id = v1::ExecutorId { value: "e".to_owned() };
    world.master.send(&MasterMessage::ShutdownExecutor { framework_id: framework_id(), executor_id });
    assert_eq!(next(&mut events).await.r#type(), event::Type::Acknowledged);
    assert_eq!(next(&mut events).await.r#type(), event::Type::Shutdown);
    // It does not listen, so it is killed after the grace.
    let exited = world.message(|message| matches!(message, AgentMessage::ExecutorExited { .. })).await;
    assert!(matches!(exited, AgentMessage::ExecutorExited { status: 9, .. }), "{exited:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_fetched_fails_the_task() {
    let mut world = World::start().await;
    let mut task = custom("t", "e", "true");
    let uri = v1::command_info::Uri { value: "/no/such/file".to_owned(), ..Default::default() };
    task.executor.as_mut().unwrap().command.as_mut().unwrap().uris.push(uri);
    world.run(vec![task]);
    let failed = world.update().await;
    assert_eq!((failed.state(), failed.reason()), (TaskState::TaskFailed, Reason::ContainerLaunchFailed));
    assert!(failed.message().contains("cannot fetch /no/such/file"), "{}", failed.message());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_outlive_the_agent_and_are_taken_over() {
    let mut world = World::start().await;
    world.run(vec![custom("t", "e", WAITING_EXECUTOR), command("c", "exec sleep 1000")]);
    let client = executor(world.work_dir(), "e").await;
    let (session, mut events) = client.subscribe(Vec::new(), Vec::new()).await.unwrap();
    assert_eq!(next(&mut events).await.r#type(), event::Type::Subscribed);
    assert_eq!(next(&mut events).await.r#type(), event::Type::Launch);
    session.call(update("t", TaskState::TaskRunning, 1)).await.unwrap();
    world.states(3, TaskState::TaskRunning).await;
    let pid = fs::read_to_string(sandbox(world.work_dir(), "e").join("pid")).unwrap();
    world.crash();
    assert!(runs(&pid));
    world.restart().await;
    let (session, mut events) = client.subscribe(Vec::new(), Vec::new()).await.unwrap();
    assert_eq!(next(&mut events).await.r#type(), event::Type::Subscribed);
    let AgentMessage::Register { info, tasks, .. } =
        world.message(|message| matches!(message, AgentMessage::Register { .. })).await
    else {
        unreachable!()
    };
    assert_eq!(info.id.unwrap().value, "S0");
    assert_eq!(tasks.iter().map(v1::Task::state).collect::<Vec<_>>(), [TaskState::TaskRunning; 2]);
    world.accept();
    session.call(update("t", TaskState::TaskFinished, 2)).await.unwrap();
    // An acknowledgement may have come too late for the first agent.
    while world.update().await.state() != TaskState::TaskFinished {}

    world.stop().await;
    assert!(!runs(&pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_executor_endpoint_answers_as_mesos_does() {
    let world = World::start().await;
    let json = "application/json";
    for (content_type, accept, body, status) in [
        (None, None, "{}", 400),
        (Some("application/json; charset=utf-8"), None, "{}", 415),
        (Some(json), None, "{", 400),
        (Some(json), None, r#"{"type":"SUBSCRIBE"}"#, 400),
        (Some(json), None, r#"{"type":"SUBSCRIBE","framework_id":{"value":"x"},"executor_id":{"value":"e"}}"#, 400),
        (
            Some(json),
            Some("text/html"),
            r#"{"type":"SUBSCRIBE","subscribe":{},"framework_id":{"value":"x"},"executor_id":{"value":"e"}}"#,
            406,
        ),
        (
            Some(json),
            None,
            r#"{"type":"SUBSCRIBE","subscribe":{},"framework_id":{"value":"x"},"executor_id":{"value":"e"}}"#,
            400,
        ),
        (Some(json), None, r#"{"type":"HEARTBEAT","framework_id":{"value":"x"},"executor_id":{"value":"e"}}"#, 202),
    ] {
        let answer = world.post("/slave(1)/api/v1/executor/", content_type, accept, body).await;
        assert_eq!(answer.0, status, "{body}: {}", answer.1);
    }
    let answer = world.post("/api/v1", Some(json), None, r#"{"type":"GET_AGENT"}"#).await;
    assert!(answer.1.contains(r#""value":"S0""#), "{}", answer.1);
    let answer = world.post("/api/v1", Some(json), None, r#"{"type":"PRUNE_IMAGES"}"#).await;
    assert_eq!(answer.0, 501);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_directory_has_one_agent() {
    let world = World::start().await;
    let second = km_mesos::agent::start(world.flags(), CancellationToken::new()).await;
    let error = second.err().unwrap();
    assert!(format!("{error:#}").contains("another agent uses work_dir"), "{error:#}");
    world.stop().await;
}
