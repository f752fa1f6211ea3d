//! The scheduler client against a scripted master.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod server;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Bytes;
use futures::StreamExt;
use km_mesos_client::{
    ClientError, Credentials, Encoding, MasterAddress,
    scheduler::{Options, connect},
};
use km_mesos_proto::v1::{
    self,
    scheduler::{Call, Event, call, event},
};
use server::{
    Server, accepted, authority, ending_stream, json_record, nobody, open_stream, record, redirect, status, subscribed,
    willing_master,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const PROTOBUF: &str = "application/x-protobuf";

fn heartbeat() -> Event {
    Event { r#type: Some(event::Type::Heartbeat.into()), ..Default::default() }
}

fn framework() -> v1::FrameworkInfo {
    v1::FrameworkInfo { user: "u".to_owned(), name: "n".to_owned(), ..Default::default() }
}

fn options(master: MasterAddress) -> Options {
    Options { subscribe_backoff_max: Duration::from_millis(20), ..Options::new(master) }
}

fn call_of(kind: call::Type) -> Call {
    Call { r#type: Some(kind.into()), ..Default::default() }
}

#[tokio::test]
async fn events_come_and_calls_go_in_both_encodings() {
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let master = Server::start(move |number, _| {
            let events = [subscribed(15.0), heartbeat()];
            let stream: Vec<u8> = match encoding {
                Encoding::Protobuf => events.iter().flat_map(record).collect(),
                Encoding::Json => events.iter().flat_map(json_record).collect(),
            };
            // Cut in the middle of whatever comes.
            let chunks = stream.chunks(7).map(Bytes::copy_from_slice).collect();
            if number == 0 { open_stream(encoding.content_type(), chunks) } else { accepted() }
        })
        .await;
        let credentials = Some(Credentials { principal: "p".to_owned(), secret: "s".to_owned() });
        let client = connect(Options { encoding, credentials, ..options(master.master()) }).unwrap();
        let (session, mut events) = client.subscribe(framework(), vec!["quiet".to_owned()]).await.unwrap();
        assert_eq!(session.framework_id(), &"f1".into());
        assert_eq!((session.master(), session.stream_id()), (&master.authority, Some("stream-1")));
        assert_eq!(events.next().await.unwrap().unwrap(), subscribed(15.0));
        assert_eq!(events.next().await.unwrap().unwrap(), heartbeat());
        session.call(call_of(call::Type::Revive)).await.unwrap();

        let seen = master.seen();
        let read = |index: usize| match encoding {
            Encoding::Protobuf => seen[index].protobuf::<Call>(),
            Encoding::Json => seen[index].json::<Call>(),
        };
        for request in &seen {
            assert_eq!(request.path, "/api/v1/scheduler");
            assert_eq!(request.header("content-type"), Some(encoding.content_type()));
            assert_eq!(request.header("accept"), Some(encoding.content_type()));
            assert_eq!(request.header("authorization"), Some("Basic cDpz"));
        }
        assert_eq!(seen[0].header("mesos-stream-id"), None);
        assert_eq!(seen[1].header("mesos-stream-id"), Some("stream-1"));
        assert_eq!((read(0).framework_id, read(1).framework_id), (None, Some("f1".into())));
        assert_eq!(read(0).subscribe.unwrap().suppressed_roles, ["quiet"]);
        assert_eq!(read(1).r#type(), call::Type::Revive);
    }
}

#[tokio::test]
async fn a_framework_with_an_id_subscribes_with_it() {
    let master = Server::start(|_, _| open_stream(PROTOBUF, vec![record(&subscribed(15.0))])).await;
    let framework = v1::FrameworkInfo { id: Some("f1".into()), ..framework() };
    connect(options(master.master())).unwrap().subscribe(framework, vec![]).await.unwrap();
    assert_eq!(master.seen()[0].protobuf::<Call>().framework_id, Some("f1".into()));
}

#[tokio::test]
async fn redirects_lead_to_the_leader_and_calls_stay_there() {
    let leader =
        Server::start(
            |number, _| {
                if number == 0 { open_stream(PROTOBUF, vec![record(&subscribed(15.0))]) } else { accepted() }
            },
        )
        .await;
    let target = format!("//{}/api/v1/scheduler", leader.authority);
    let follower = Server::start(move |_, _| redirect(&target)).await;
    let (session, _events) = connect(options(follower.master())).unwrap().subscribe(framework(), vec![]).await.unwrap();
    session.call(call_of(call::Type::Suppress)).await.unwrap();
    assert_eq!(session.master(), &leader.authority);
    assert_eq!((follower.seen().len(), leader.seen().len()), (1, 2));
}

#[tokio::test]
async fn it_waits_for_a_leader_and_tries_all_masters() {
    let master = Server::start(|number, request| match number {
        0 => status(503, "No leader elected"),
        // One attempt goes in circles.
        1 => redirect(&format!("//{}", request.header("host").unwrap())),
        _ => open_stream(PROTOBUF, vec![record(&subscribed(15.0))]),
    })
    .await;
    let masters = MasterAddress::List(vec![nobody().await, master.authority.clone()]);
    connect(options(masters)).unwrap().subscribe(framework(), vec![]).await.unwrap();
    assert_eq!(master.seen().len(), 3);
}

#[tokio::test]
async fn masters_that_send_each_other_the_caller_are_left_alone_until_one_leads() {
    let leads = Arc::new(AtomicUsize::new(0));
    let other = Arc::new(std::sync::OnceLock::<String>::new());
    let first = {
        let (leads, other) = (leads.clone(), other.clone());
        Server::start(move |number, _| {
            // It is elected when it has been asked for the third time.
            if number < 3 {
                return redirect(&format!("//{}/api/v1/scheduler", other.get().unwrap()));
            }
            leads.fetch_add(1, Ordering::SeqCst);
            open_stream(PROTOBUF, vec![record(&subscribed(15.0))])
        })
        .await
    };
    let target = format!("//{}/api/v1/scheduler", first.authority);
    let second = Server::start(move |_, _| redirect(&target)).await;
    other.set(second.authority.to_string()).unwrap();

    let (session, _events) = connect(options(first.master())).unwrap().subscribe(framework(), vec![]).await.unwrap();
    assert_eq!(session.master(), &first.authority);
    // Each attempt asked each of them once, and then there was a pause.
    assert_eq!((first.seen().len(), second.seen().len(), leads.load(Ordering::SeqCst)), (4, 3, 1));

    let circle = Server::start(|_, request| redirect(&format!("//{}/x", request.header("host").unwrap()))).await;
    let options = Options { subscribe_deadline: Duration::from_secs(1), ..options(circle.master()) };
    let error = connect(options).unwrap().subscribe(framework(), vec![]).await.unwrap_err().to_string();
    assert!(error.contains("in circles, so no master leads"), "{error}");
}

#[tokio::test]
async fn a_session_without_zookeeper_is_never_superseded() {
    let master = willing_master().await;
    let (session, _events) = connect(options(master.master())).unwrap().subscribe(framework(), vec![]).await.unwrap();
    assert!(tokio::time::timeout(Duration::ZERO, session.superseded()).await.is_err());
}

#[tokio::test]
async fn the_file_that_names_the_master_is_read_at_each_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("master");
    let master = Server::start(|_, _| open_stream(PROTOBUF, vec![record(&subscribed(15.0))])).await;
    let client = connect(options(MasterAddress::File(path.clone()))).unwrap();
    // What is wrong may be mended.
    tokio::fs::write(&path, "zk://nowhere").await.unwrap();
    let subscribing = tokio::spawn(async move { client.subscribe(framework(), vec![]).await });
    tokio::fs::write(&path, format!("{}\n", master.authority)).await.unwrap();
    subscribing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_refusal_is_final_and_keeps_its_reason() {
    let error = Event {
        r#type: Some(event::Type::Error.into()),
        error: Some(event::Error { message: "Framework has been removed".to_owned() }),
        ..Default::default()
    };
    let master = Server::start(move |_, _| ending_stream(PROTOBUF, vec![record(&error)])).await;
    let refused = connect(options(master.master())).unwrap().subscribe(framework(), vec![]).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(reason) if reason == "Framework has been removed"), "{refused}");
    assert_eq!(master.seen().len(), 1);
}

#[tokio::test]
async fn errors_keep_status_and_text() {
    let master = Server::start(|number, _| match number {
        0 => open_stream(PROTOBUF, vec![record(&subscribed(15.0))]),
        _ => status(403, "Framework is not subscribed\n"),
    })
    .await;
    let (session, _events) = connect(options(master.master())).unwrap().subscribe(framework(), vec![]).await.unwrap();
    let error = session.call(call_of(call::Type::Revive)).await.unwrap_err();
    assert_eq!(error.status(), Some(403));
    assert!(error.to_string().ends_with("answered 403: Framework is not subscribed"), "{error}");
    assert!(!error.may_have_had_effect());
    assert_eq!(master.seen().len(), 2, "what is refused isn't repeated");
}

#[tokio::test]
async fn missed_heartbeats_end_the_stream() {
    let master = Server::start(|_, _| open_stream(PROTOBUF, vec![record(&subscribed(0.01))])).await;
    let (_session, mut events) =
        connect(options(master.master())).unwrap().subscribe(framework(), vec![]).await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::HeartbeatsMissed { missed: 5, .. }), "{error}");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn closed_and_broken_streams_say_so_and_end() {
    let whole = record(&subscribed(15.0));
    let cases: [(Vec<Bytes>, &str); 3] = [
        (vec![whole.clone()], "the event stream was closed"),
        (vec![whole.clone(), "x".into()], "broken event stream"),
        (vec![whole, "1\n\u{7}".into()], "malformed answer"),
    ];
    for (chunks, reason) in cases {
        let master = Server::start(move |_, _| ending_stream(PROTOBUF, chunks.clone())).await;
        let (_session, mut events) =
            connect(options(master.master())).unwrap().subscribe(framework(), vec![]).await.unwrap();
        assert!(events.next().await.unwrap().is_ok());
        let error = events.next().await.unwrap().unwrap_err();
        assert!(error.to_string().starts_with(reason), "{error}");
        assert!(events.next().await.is_none());
    }
}

#[tokio::test]
async fn time_runs_out() {
    let master = Server::start(|number, _| match number {
        0 => open_stream(PROTOBUF, vec![record(&subscribed(15.0))]),
        _ => status(503, "Master has not finished recovery"),
    })
    .await;
    let options = Options { call_deadline: Duration::from_secs(1), ..options(master.master()) };
    let (session, _events) = connect(options).unwrap().subscribe(framework(), vec![]).await.unwrap();
    let error = session.call(call_of(call::Type::Revive)).await.unwrap_err();
    assert!(matches!(error, ClientError::Deadline { .. }), "{error}");
    assert_eq!(error.status(), Some(503));
    assert!(master.seen().len() > 2, "it was repeated");
}

/// A master that subscribes us at the first connection, hangs up after reading a call, and then accepts.
async fn hanging_up_master() -> (MasterAddress, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let master = MasterAddress::List(vec![authority(&listener)]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        for number in 0.. {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            // A request that never comes, on a connection that the client only kept ready, is none.
            if connection.read(&mut buffer).await.unwrap_or(0) == 0 {
                continue;
            }
            match number {
                0 => {
                    let event = record(&subscribed(15.0));
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\r\n";
                    connection.write_all(head.as_bytes()).await.unwrap();
                    connection.write_all(&event).await.unwrap();
                    open.push(connection);
                }
                _ if counted.fetch_add(1, Ordering::SeqCst) == 0 => drop(connection),
                _ => {
                    let answer = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
                    connection.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        }
    });
    (master, calls)
}

#[tokio::test]
async fn only_what_does_no_harm_twice_is_repeated_after_an_interruption() {
    for (kind, sent) in [(call::Type::Accept, 1), (call::Type::Decline, 2)] {
        let (master, calls) = hanging_up_master().await;
        let (session, _events) = connect(options(master)).unwrap().subscribe(framework(), vec![]).await.unwrap();
        match session.call(call_of(kind)).await {
            Ok(()) => assert_eq!(kind, call::Type::Decline),
            Err(error) => {
                assert_eq!(kind, call::Type::Accept, "{error}");
                assert!(error.may_have_had_effect());
            }
        }
        assert_eq!(calls.load(Ordering::SeqCst), sent);
    }
}
