//! The operator client against a scripted master.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod server;

use std::time::Duration;

use axum::{body::Body, http::Response};
use km_mesos_client::{Encoding, MasterAddress, OperatorClient};
use km_mesos_proto::{
    Message, json,
    v1::master::{self, Call, call, response},
};
use server::{Seen, Server, accepted, nobody, status};

fn client(master: MasterAddress, encoding: Encoding) -> OperatorClient {
    OperatorClient::new(master, encoding, None, Duration::from_secs(10)).unwrap()
}

fn answer<M: Message>(encoding: Encoding, message: &M) -> Response<Body> {
    let body = match encoding {
        Encoding::Protobuf => message.encode_to_vec(),
        Encoding::Json => json::to_vec(message),
    };
    Response::builder().header("Content-Type", encoding.content_type()).body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn state_comes_in_both_encodings_from_the_master_that_answers() {
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let master = Server::start(move |number, seen: &Seen| {
            let call: Call = match encoding {
                Encoding::Protobuf => seen.protobuf(),
                Encoding::Json => seen.json(),
            };
            let mut response = master::Response::default();
            match call.r#type() {
                _ if number == 0 => return status(503, "No leader elected"),
                call::Type::GetState => response.get_state = Some(response::GetState::default()),
                _ => response.get_agents = Some(response::GetAgents::default()),
            }
            answer(encoding, &response)
        })
        .await;
        let masters = MasterAddress::List(vec![nobody().await, master.authority.clone()]);
        let client = client(masters, encoding);
        assert_eq!(client.get_state().await.unwrap(), response::GetState::default());
        assert_eq!(client.get_agents().await.unwrap(), response::GetAgents::default());
        assert!(master.seen().iter().all(|seen| seen.path == "/api/v1"));
    }
}

#[tokio::test]
async fn changes_have_empty_answers_and_refusals_have_reasons() {
    let master =
        Server::start(|number, _| if number == 0 { accepted() } else { status(400, "No such framework") }).await;
    let client = client(master.master(), Encoding::Protobuf);
    let teardown = || Call {
        r#type: Some(call::Type::Teardown.into()),
        teardown: Some(call::Teardown { framework_id: "f".into() }),
        ..Default::default()
    };
    assert_eq!(client.call(teardown()).await.unwrap(), master::Response::default());
    let error = client.call(teardown()).await.unwrap_err();
    assert_eq!(error.status(), Some(400));
    assert!(error.to_string().contains("No such framework"), "{error}");
}

#[tokio::test]
async fn an_answer_without_what_was_asked_is_an_error() {
    let master = Server::start(|_, _| answer(Encoding::Protobuf, &master::Response::default())).await;
    let error = client(master.master(), Encoding::Protobuf).get_state().await.unwrap_err();
    assert!(error.to_string().contains("no 'get_state'"), "{error}");
}
