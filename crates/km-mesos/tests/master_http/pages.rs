//! The older pages and the operator API.

use km_mesos::master::Flags;
use reqwest::header;
use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test]
async fn pages_answer_under_all_their_paths() {
    // M312, M315, M324
    let master = Master::start(Flags::default()).await;
    assert_eq!(master.page("/version").await["version"], "1.11.0");
    assert_eq!(master.page("/slaves").await, json!({"slaves": [], "recovered_slaves": []}));
    assert_eq!(master.page("/roles").await, json!({"roles": []}));
    assert_eq!(master.page("/master/tasks?limit=-1").await, json!({"tasks": []}));
    assert_eq!(master.page("/master/frameworks/").await["frameworks"], json!([]));
    let state = master.page("/master/state").await;
    assert_eq!(state["capabilities"], json!(["AGENT_UPDATE", "AGENT_DRAINING", "QUOTA_V2"]));
    assert_eq!(state["pid"], json!(format!("master@{}", master.authority())));
    assert_eq!(master.page("/metrics/snapshot").await["master/elected"], 1.0);
    for path in ["/state-summary", "/flags", "/weights", "/quota", "/maintenance/schedule", "/maintenance/status"] {
        master.page(path).await;
    }
    assert_eq!(master.get("/health").await.status(), 200);
    assert_eq!(send(master.post("/tasks/?task_id=x", None, "")).await.status(), 200, "reading by POST works");
    let redirect = master.get("/redirect").await;
    let location = format!("//{}", master.authority());
    assert_eq!(redirect.status(), 307);
    assert_eq!(redirect.headers()[header::LOCATION], location.as_str());
    assert_eq!(master.get("/redirect/x").await.status(), 404);
    assert_eq!(master.get("/nothing").await.status(), 404);
    master.end().await;
}

#[tokio::test]
async fn operators_ask_and_watch() {
    // M299, M307, M308, M309
    let master = Master::start(Flags::default()).await;
    let health: Value = send(master.operator(&json!({"type": "GET_HEALTH"}))).await.json().await.expect("JSON");
    assert_eq!(health, json!({"type": "GET_HEALTH", "get_health": {"healthy": true}}));
    assert_eq!(send(master.operator(&json!({"type": "TEARDOWN"}))).await.status(), 400);
    let mut stream = Stream::of(send(master.operator(&json!({"type": "SUBSCRIBE"}))).await);
    assert_eq!(stream.next().await.expect("an event")["type"], "SUBSCRIBED");
    assert_eq!(stream.next().await.expect("an event")["type"], "HEARTBEAT");
    let framework = master.subscribe(None).await;
    assert_eq!(stream.next().await.expect("an event")["type"], "FRAMEWORK_ADDED");
    let form = format!("frameworkId={}", framework.id);
    assert_eq!(send(master.post("/master/teardown", None, form)).await.status(), 200);
    assert_eq!(stream.next().await.expect("an event")["type"], "FRAMEWORK_REMOVED");
    assert_eq!(send(master.post("/teardown", None, "")).await.status(), 400);
    master.end().await;
}
