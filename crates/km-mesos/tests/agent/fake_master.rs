//! A master that the test plays: it takes what the agent says and sends what the test wants.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use futures::{StreamExt, stream};
use km_mesos_core::link::{AgentMessage, CONNECT_PATH, LINK_ID_HEADER, MESSAGE_PATH, MasterMessage};
use km_mesos_proto::recordio;
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

pub struct FakeMaster {
    pub address: SocketAddr,
    pub said: UnboundedReceiver<AgentMessage>,
    shared: Arc<Shared>,
}

struct Shared {
    said: UnboundedSender<AgentMessage>,
    link: Mutex<Option<UnboundedSender<Bytes>>>,
}

impl FakeMaster {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, said) = unbounded_channel();
        let shared = Arc::new(Shared { said: sender, link: Mutex::default() });
        let router =
            Router::new().route(CONNECT_PATH, post(connect)).route(MESSAGE_PATH, post(take)).with_state(shared.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        Self { address, said, shared }
    }

    /// Sends on the newest link.
    pub fn send(&self, message: &MasterMessage) {
        let link = self.shared.link.lock().unwrap();
        link.as_ref().unwrap().send(recordio::encode(&message.to_record())).unwrap();
    }
}

async fn connect(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let (sender, records) = unbounded_channel();
    *shared.link.lock().unwrap() = Some(sender);
    shared.said.send(AgentMessage::from_record(&body).unwrap()).unwrap();
    let records = stream::unfold(records, async |mut records: UnboundedReceiver<Bytes>| {
        let record = records.recv().await?;
        Some((record, records))
    });
    ([(LINK_ID_HEADER, "link")], Body::from_stream(records.map(Ok::<_, std::convert::Infallible>))).into_response()
}

async fn take(State(shared): State<Arc<Shared>>, body: Bytes) -> StatusCode {
    shared.said.send(AgentMessage::from_record(&body).unwrap()).unwrap();
    StatusCode::ACCEPTED
}
