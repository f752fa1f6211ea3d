//! A scripted server: answers each request as told and remembers it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderMap, Response, StatusCode},
};
use futures::{Stream, StreamExt, stream};
use km_mesos_client::{Authority, MasterAddress};
use km_mesos_proto::{
    Message, json, recordio,
    v1::scheduler::{Call, Event, call, event},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn protobuf<M: Message>(&self) -> M {
        km_mesos_proto::decode_checked(&self.body).unwrap()
    }

    pub fn json<M: Message>(&self) -> M {
        json::from_slice(&self.body).unwrap()
    }
}

pub struct Server {
    pub authority: Authority,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// `answer` gets the request's number from 0, and the request.
    pub async fn start(answer: impl Fn(usize, &Seen) -> Response<Body> + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = authority(&listener);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = seen.clone();
        let app = Router::new().fallback(move |request: Request| {
            let (answer, seen) = (answer.clone(), remembered.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, usize::MAX).await.unwrap();
                let request = Seen { path: parts.uri.path().to_owned(), headers: parts.headers, body };
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.clone());
                    seen.len() - 1
                };
                answer(number, &request)
            }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { authority, seen, task }
    }

    pub fn master(&self) -> MasterAddress {
        MasterAddress::List(vec![self.authority.clone()])
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A master that subscribes everybody and accepts every call.
pub async fn willing_master() -> Server {
    Server::start(|_, seen| match seen.protobuf::<Call>().r#type() {
        call::Type::Subscribe => open_stream("application/x-protobuf", vec![record(&subscribed(15.0))]),
        _ => accepted(),
    })
    .await
}

/// The first event of a subscription, with the seconds between heartbeats.
pub fn subscribed(heartbeat: f64) -> Event {
    Event {
        r#type: Some(event::Type::Subscribed.into()),
        subscribed: Some(event::Subscribed {
            framework_id: "f1".into(),
            heartbeat_interval_seconds: Some(heartbeat),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn authority(listener: &TcpListener) -> Authority {
    Authority { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() }
}

/// An address where nobody listens.
pub async fn nobody() -> Authority {
    authority(&TcpListener::bind("127.0.0.1:0").await.unwrap())
}

pub fn status(status: u16, body: &str) -> Response<Body> {
    Response::builder().status(status).body(Body::from(body.to_owned())).unwrap()
}

pub fn accepted() -> Response<Body> {
    status(StatusCode::ACCEPTED.as_u16(), "")
}

pub fn redirect(to: &str) -> Response<Body> {
    Response::builder().status(307).header("Location", to).body(Body::empty()).unwrap()
}

/// A stream of chunks that then stays open.
pub fn open_stream(content_type: &str, chunks: Vec<Bytes>) -> Response<Body> {
    streaming(content_type, stream::iter(chunks).chain(stream::pending()))
}

/// A stream of chunks that then ends.
pub fn ending_stream(content_type: &str, chunks: Vec<Bytes>) -> Response<Body> {
    streaming(content_type, stream::iter(chunks))
}

fn streaming(content_type: &str, chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    Response::builder()
        .header("Content-Type", content_type)
        .header("Mesos-Stream-Id", "stream-1")
        .body(Body::from_stream(chunks.map(Ok::<_, std::io::Error>)))
        .unwrap()
}

pub fn protobuf<M: Message>(message: &M) -> Vec<u8> {
    message.encode_to_vec()
}

pub fn record<M: Message>(event: &M) -> Bytes {
    recordio::encode(&event.encode_to_vec())
}

pub fn json_record<M: Message>(event: &M) -> Bytes {
    recordio::encode(json::to_string(event).as_bytes())
}
