//! The executor client against a scripted agent.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod server;

use std::collections::HashMap;

use futures::StreamExt;
use km_mesos_client::{ClientError, Environment, ExecutorClient, executor};
use km_mesos_proto::v1::{
    self,
    executor::{Call, Event, call, event},
};
use server::{Server, accepted, nobody, open_stream, record, status};

fn environment(agent: &km_mesos_client::Authority, more: &[(&str, &str)]) -> HashMap<String, String> {
    let agent = agent.to_string();
    let basic = [
        ("MESOS_FRAMEWORK_ID", "f"),
        ("MESOS_EXECUTOR_ID", "e"),
        ("MESOS_AGENT_ENDPOINT", agent.as_str()),
        ("MESOS_SUBSCRIPTION_BACKOFF_MAX", "20ms"),
    ];
    basic.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn heartbeat() -> Event {
    Event { r#type: Some(event::Type::Heartbeat.into()), ..Default::default() }
}

#[tokio::test]
async fn it_subscribes_again_with_what_is_unacknowledged() {
    let agent = Server::start(|number, _| match number {
        0 => status(503, "Agent has not finished recovery"),
        1 => open_stream("application/x-protobuf", vec![record(&heartbeat())]),
        _ => accepted(),
    })
    .await;
    let client = ExecutorClient::from_env(&environment(
        &agent.authority,
        &[("MESOS_CHECKPOINT", "1"), ("MESOS_EXECUTOR_AUTHENTICATION_TOKEN", "t0k3n")],
    ));
    let task = v1::TaskInfo { task_id: "t".into(), ..Default::default() };
    let update = call::Update { status: v1::TaskStatus { task_id: "t".into(), ..Default::default() } };
    let subscription = client.unwrap().subscribe(vec![task.clone()], vec![update.clone()]).await;
    let (session, mut events): (executor::Session, executor::EventStream) = subscription.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap(), heartbeat());
    let call = Call { r#type: Some(call::Type::Update.into()), update: Some(update.clone()), ..Default::default() };
    session.call(call).await.unwrap();

    let seen = agent.seen();
    for request in &seen {
        assert_eq!(request.path, "/api/v1/executor");
        assert_eq!(request.header("authorization"), Some("Bearer t0k3n"));
        let call: Call = request.protobuf();
        assert_eq!((call.executor_id, call.framework_id), ("e".into(), "f".into()));
    }
    let subscribe = seen[1].protobuf::<Call>().subscribe.unwrap();
    assert_eq!((subscribe.unacknowledged_tasks, subscribe.unacknowledged_updates), (vec![task], vec![update.clone()]));
    assert_eq!(seen[2].protobuf::<Call>().update, Some(update));
}

#[tokio::test]
async fn it_gives_up_when_the_recovery_timeout_has_passed() {
    let variables = environment(&nobody().await, &[("MESOS_CHECKPOINT", "1"), ("MESOS_RECOVERY_TIMEOUT", "100ms")]);
    let client = ExecutorClient::from_env(&variables).unwrap();
    assert_eq!(client.environment(), &Environment::parse(&variables).unwrap());
    let error = client.subscribe(vec![], vec![]).await.unwrap_err();
    assert!(matches!(error, ClientError::Deadline { .. }), "{error}");
    assert!(error.to_string().contains("can't connect"), "{error}");
}

#[tokio::test]
async fn a_refusal_is_final() {
    let agent = Server::start(|_, _| status(400, "Framework cannot be found")).await;
    let client = ExecutorClient::from_env(&environment(&agent.authority, &[])).unwrap();
    let error = client.subscribe(vec![], vec![]).await.unwrap_err();
    assert_eq!(error.status(), Some(400));
    assert!(error.to_string().contains("Framework cannot be found"), "{error}");
    assert_eq!(agent.seen().len(), 1);
}
