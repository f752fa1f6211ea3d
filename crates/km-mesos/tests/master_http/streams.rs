//! Event streams: how they begin, in which encoding, and how they end.

use std::time::Duration;

use km_mesos::master::Flags;
use km_mesos_core::link::{AgentMessage, CONNECT_PATH, MasterMessage};
use km_mesos_proto::{
    json as mesos_json,
    v1::{self, scheduler},
};
use reqwest::header;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn a_stream_begins_with_subscribed_and_a_heartbeat() {
    // M007, M008, M009, M012, M017
    let flags = Flags { heartbeat_interval: Duration::from_millis(200), ..Flags::default() };
    let master = Master::start(flags).await;
    let response = send(master.call(&subscription(None))).await;
    assert_eq!(response.headers()[header::TRANSFER_ENCODING], "chunked");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    let mut stream = Stream::of(response);
    assert!(!stream.stream_id.is_empty());
    let subscribed = stream.next().await.expect("an event")["subscribed"].clone();
    assert_eq!(subscribed["heartbeat_interval_seconds"], 0.2);
    let port: u64 = master.base.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    assert_eq!(subscribed["master_info"]["address"]["port"], port);
    for _ in 0..3 {
        assert_eq!(stream.next().await.expect("an event")["type"], "HEARTBEAT");
    }
    let id = subscribed["framework_id"]["value"].as_str().expect("an id").to_owned();
    let again = master.subscribe(Some(&id)).await;
    assert_eq!(again.id, id);
    assert_eq!(stream.next_of("ERROR").await["error"]["message"], "Framework failed over");
    assert!(stream.next().await.is_none(), "the old stream ends");
    master.end().await;
}

#[tokio::test]
async fn protobuf_is_spoken_where_it_is_accepted() {
    // M007
    let master = Master::start(Flags::default()).await;
    let call: scheduler::Call = mesos_json::from_str(&subscription(None).to_string()).expect("a call");
    let body = prost::Message::encode_to_vec(&call);
    let request = || master.post("/api/v1/scheduler", Some("application/x-protobuf"), body.clone());
    let response = send(request()).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json", "no Accept means JSON");
    let response = send(request().header(header::ACCEPT, "application/x-protobuf")).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/x-protobuf");
    let record = Stream::of(response).next_record().await.expect("an event");
    let event: scheduler::Event = prost::Message::decode(record.as_slice()).expect("an event");
    assert_eq!(event.r#type(), scheduler::event::Type::Subscribed);
    master.end().await;
}

#[tokio::test]
async fn a_broken_stream_disconnects_its_framework() {
    // M032
    let master = Master::start(Flags::default()).await;
    let stream = master.subscribe(None).await;
    let (id, stream_id) = (stream.id.clone(), stream.stream_id.clone());
    drop(stream);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while master.page("/frameworks").await["frameworks"][0]["connected"] != false {
        assert!(tokio::time::Instant::now() < deadline, "the disconnection is noticed");
    }
    let revive = json!({"type": "REVIVE", "framework_id": {"value": id}});
    let response = send(master.call(&revive).header("Mesos-Stream-Id", stream_id)).await;
    assert_eq!(response.status(), 403);
    assert_eq!(response.text().await.expect("text"), "Framework is not subscribed");
    master.end().await;
}

fn register(id: Option<v1::AgentId>) -> AgentMessage {
    AgentMessage::Register {
        info: v1::AgentInfo { hostname: "host".to_owned(), id, ..Default::default() },
        version: "1.11.0".to_owned(),
        frameworks: Vec::new(),
        executors: Vec::new(),
        tasks: Vec::new(),
        operations: Vec::new(),
        resources: Vec::new(),
    }
}

/// Opens an agent's link and reads its id.
async fn registered(master: &Master, message: AgentMessage) -> (v1::AgentId, Stream) {
    let mut link = Stream::of(send(master.post(CONNECT_PATH, None, message.to_record())).await);
    let record = link.next_record().await.expect("an answer");
    match MasterMessage::from_record(&record).expect("a message") {
        MasterMessage::Registered { agent_id, .. } => (agent_id, link),
        other => panic!("unexpected {other:?}"),
    }
}

#[tokio::test]
async fn agents_in_the_registry_survive_a_restart() {
    // M244
    let directory = tempfile::tempdir().expect("a directory");
    let flags = || Flags { work_dir: Some(directory.path().to_owned()), ..Flags::default() };
    let master = Master::start(flags()).await;
    let (id, link) = registered(&master, register(None)).await;
    drop(link);
    master.end().await;
    let master = Master::start(flags()).await;
    assert_eq!(master.page("/slaves").await["recovered_slaves"][0]["id"], id.value.as_str());
    let (same, _link) = registered(&master, register(Some(id.clone()))).await;
    assert_eq!(same, id);
    assert_eq!(master.page("/slaves").await["slaves"][0]["id"], id.value.as_str());
    master.end().await;
}
