//! What is refused, and in which order.

use km_mesos::master::Flags;
use reqwest::header;
use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test]
async fn requests_are_checked_in_the_order_of_mesos() {
    // M001 to M006, M011, M015
    let master = Master::start(Flags::default()).await;
    let subscribe = subscription(None).to_string();
    let path = "/api/v1/scheduler";
    let typed = |kind: &str, body: &str| master.post(path, Some(kind), body.to_owned());
    let bad_uuid = json!({
        "type": "ACKNOWLEDGE",
        "framework_id": {"value": "x"},
        "acknowledge": {"agent_id": {"value": "a"}, "task_id": {"value": "t"}, "uuid": "AAAA"},
    });
    let unknown_framework = json!({"type": "REVIVE", "framework_id": {"value": "x"}});
    let cases = [
        ("no type", master.post(path, None, subscribe.clone()), 400, "Expecting 'Content-Type' to be present"),
        ("not a call", typed("application/json", r#"{"string":"valid_json"}"#), 400, ""),
        ("garbage as JSON", typed("application/json", "garbage"), 400, ""),
        ("garbage as protobuf", typed("application/x-protobuf", "garbage"), 400, ""),
        ("other media", typed("application/unknown", &subscribe), 415, ""),
        ("parameters", typed("application/json; charset=utf-8", &subscribe), 415, ""),
        ("not acceptable", typed("application/json", &subscribe).header(header::ACCEPT, "foo"), 406, ""),
        ("stream id", typed("application/json", &subscribe).header("Mesos-Stream-Id", "x"), 400, ""),
        ("bad uuid", master.call(&bad_uuid), 400, "Failed to validate scheduler::Call: Not a valid UUID"),
        ("unknown framework", master.call(&unknown_framework), 400, "Framework cannot be found"),
    ];
    for (name, request, status, text) in cases {
        let response = send(request).await;
        assert_eq!(response.status(), status, "{name}");
        let body = response.text().await.expect("text");
        assert!(text.is_empty() || body == text, "{name}: {body}");
    }
    let response = master.get(path).await;
    assert_eq!((response.status().as_u16(), response.headers()[header::ALLOW].to_str().ok()), (405, Some("POST")));
    assert_eq!(master.page("/frameworks").await["frameworks"], json!([]), "no refused call left a framework");
    master.end().await;
}

#[tokio::test]
async fn calls_need_the_current_stream_id() {
    // M010, M013, M014, M020
    let master = Master::start(Flags::default()).await;
    let stream = master.subscribe(None).await;
    let teardown = json!({"type": "TEARDOWN", "framework_id": {"value": stream.id}});
    assert_eq!(send(master.call(&teardown)).await.status(), 400);
    let second = master.subscribe(Some(&stream.id)).await;
    let with = |stream: &Stream| master.call(&teardown).header("Mesos-Stream-Id", &stream.stream_id);
    assert_eq!(send(with(&stream)).await.status(), 400);
    let done = send(with(&second)).await;
    assert_eq!((done.status().as_u16(), done.headers()[header::CONTENT_LENGTH].to_str().ok()), (202, Some("0")));
    let mut refused = Stream::of(send(master.call(&subscription(Some(&stream.id)))).await);
    assert_eq!(refused.next().await.expect("ERROR")["error"]["message"], "Framework has been removed");
    assert!(refused.next().await.is_none());
    let mut bad_role = subscription(None);
    bad_role["subscribe"]["framework_info"]["role"] = json!("/test/test1");
    let mut refused = Stream::of(send(master.call(&bad_role)).await);
    assert_eq!(refused.next().await.expect("ERROR")["type"], "ERROR");
    assert!(refused.next().await.is_none());
    master.end().await;
}

#[tokio::test]
async fn schedulers_authenticate_where_that_is_asked_for() {
    // M016, M335, M336
    let directory = tempfile::tempdir().expect("a directory");
    let credentials = directory.path().join("credentials");
    std::fs::write(&credentials, r#"{"credentials":[{"principal":"p","secret":"s"}]}"#).expect("written");
    let flags = Flags { authenticate_http_frameworks: true, credentials: Some(credentials), ..Flags::default() };
    let master = Master::start(flags).await;
    let response = send(master.call(&subscription(None))).await;
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Basic realm=\"mesos-master-scheduler\"");
    let as_p = |call: &Value, secret: &str| master.call(call).basic_auth("p", Some(secret.to_owned()));
    assert_eq!(send(as_p(&subscription(None), "x")).await.status(), 401);
    let mut other = subscription(None);
    other["subscribe"]["framework_info"]["principal"] = json!("q");
    assert_eq!(send(as_p(&other, "s")).await.status(), 400);
    let right = send(as_p(&subscription(None), "s")).await;
    assert_eq!(right.status(), 200);
    assert_eq!(master.page("/frameworks").await["frameworks"][0]["principal"], "p");
    master.end().await;
}
