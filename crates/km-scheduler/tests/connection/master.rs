//! A scripted master: it subscribes everybody, each time with another stream id, and answers calls as it is told.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use km_mesos_proto::{
    Message, decode_checked, recordio,
    v1::{
        self,
        scheduler::{Call, Event, call, event},
    },
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

/// What becomes of a call.
pub enum Reply {
    Accept,
    Refuse(u16, String),
    /// The connection ends without an answer, and so do all event streams.
    Crash,
}

/// A call as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub call: Call,
    /// Whether it carried the stream id of that subscription. SUBSCRIBE carries none.
    pub current: bool,
}

/// Decides on each call but SUBSCRIBE and those with an old stream id, which are refused as Mesos refuses them.
type Script = Box<dyn Fn(&Call) -> Reply + Send + Sync>;

pub struct FakeMaster {
    pub address: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    script: Script,
    heartbeat: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    streams: Vec<mpsc::UnboundedSender<Bytes>>,
    subscriptions: usize,
    /// What the master calls its version.
    version: Option<String>,
    /// Whether the operator API tells the agents. There are none.
    tells_agents: bool,
}

impl FakeMaster {
    pub async fn start(script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::with_heartbeat(15.0, script).await
    }

    /// Announces heartbeats every so many seconds, and sends none.
    pub async fn with_heartbeat(heartbeat: f64, script: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner { script: Box::new(script), heartbeat, state: Mutex::default() });
        let shared = inner.clone();
        let task = tokio::spawn(async move {
            // Dropped with this task, and all connections with it.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let shared = shared.clone();
                let service = service_fn(move |request| answer(shared.clone(), request));
                connections.spawn(async move {
                    // It ends with an error when we crash.
                    let _ended = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { address, inner, task }
    }

    /// All calls of a kind.
    pub fn seen(&self, kind: call::Type) -> Vec<Seen> {
        self.inner.lock().seen.iter().filter(|seen| seen.call.r#type() == kind).cloned().collect()
    }

    /// The kinds of all calls, in order.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.inner.lock().seen.iter().map(|seen| seen.call.r#type().as_str_name()).collect()
    }

    /// Sends an event in the newest subscription.
    pub fn send(&self, event: &Event) {
        self.inner.lock().streams.last().unwrap().send(record(event)).unwrap();
    }

    /// Makes offers.
    pub fn offer(&self, offers: Vec<v1::Offer>) {
        let kind = Some(event::Type::Offers.into());
        self.send(&Event { r#type: kind, offers: Some(event::Offers { offers }), ..Event::default() });
    }

    /// From now on the master says that it is of that version.
    pub fn tell_version(&self, version: &str) {
        self.inner.lock().version = Some(version.to_owned());
    }

    /// From now on the operator API tells the agents.
    pub fn tell_agents(&self) {
        self.inner.lock().tells_agents = true;
    }

    /// Ends all event streams.
    pub fn cut(&self) {
        self.inner.lock().streams.clear();
    }

    /// Ends the server with all its connections.
    pub fn die(self) {
        drop(self);
    }
}

impl Drop for FakeMaster {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that failed still has to be cleaned up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn answer(inner: Arc<Inner>, request: Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
    if request.uri().path() != "/api/v1/scheduler" {
        return Ok(match inner.lock().tells_agents {
            true => agents(),
            false => text(501, "no operator here"),
        });
    }
    let stream_id = request.headers().get("mesos-stream-id").map(|id| id.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let call: Call = decode_checked(&body).unwrap();
    let mut state = inner.lock();
    if call.r#type() == call::Type::Subscribe {
        state.subscriptions += 1;
        let subscription = state.subscriptions;
        state.seen.push(Seen { call: call.clone(), current: stream_id.is_none() });
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(record(&inner.subscribed(&call, state.version.clone()))).unwrap();
        state.streams.push(sender);
        return Ok(events(subscription, receiver));
    }
    let subscription = state.subscriptions;
    let current = stream_id == Some(format!("stream-{subscription}"));
    state.seen.push(Seen { call: call.clone(), current });
    if !current {
        return Ok(text(400, "The stream ID included in this request didn't match the stream ID currently associated"));
    }
    match (inner.script)(&call) {
        Reply::Accept => Ok(text(202, "")),
        Reply::Refuse(status, reason) => Ok(text(status, &reason)),
        Reply::Crash => {
            state.streams.clear();
            Err(std::io::Error::other("crashed"))
        }
    }
}

impl Inner {
    fn subscribed(&self, call: &Call, version: Option<String>) -> Event {
        let framework_id = call.framework_id.clone().unwrap_or_else(|| "framework-1".into());
        let subscribed = event::Subscribed {
            framework_id,
            heartbeat_interval_seconds: Some(self.heartbeat),
            master_info: version.map(|version| v1::MasterInfo { version: Some(version), ..v1::MasterInfo::default() }),
        };
        Event { r#type: Some(event::Type::Subscribed.into()), subscribed: Some(subscribed), ..Event::default() }
    }
}

fn agents() -> Response<Body> {
    let answer = v1::master::Response {
        r#type: Some(v1::master::response::Type::GetAgents.into()),
        get_agents: Some(v1::master::response::GetAgents::default()),
        ..v1::master::Response::default()
    };
    let body = Full::new(bytes(&answer)).boxed_unsync();
    Response::builder().header("Content-Type", "application/x-protobuf").body(body).unwrap()
}

fn record(event: &impl Message) -> Bytes {
    recordio::encode(&bytes(event))
}

fn bytes(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn text(status: u16, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

fn events(subscription: usize, receiver: mpsc::UnboundedReceiver<Bytes>) -> Response<Body> {
    let next = |mut receiver: mpsc::UnboundedReceiver<Bytes>| async { Some((receiver.recv().await?, receiver)) };
    let frames = stream::unfold(receiver, next).map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    Response::builder()
        .header("Content-Type", "application/x-protobuf")
        .header("Mesos-Stream-Id", format!("stream-{subscription}"))
        .body(StreamBody::new(frames).boxed_unsync())
        .unwrap()
}
