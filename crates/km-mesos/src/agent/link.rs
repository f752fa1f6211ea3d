//! The agent's end of the link to its master, over HTTP (see `km_mesos_core::link`).

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use km_mesos_core::{
    agent::Event,
    link::{AgentMessage, CONNECT_PATH, LINK_ID_HEADER, MESSAGE_PATH, MasterMessage},
};
use km_mesos_proto::recordio::Decoder;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};

/// How long the master may take to answer a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last messages may take when the agent ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// No order of a master is longer than this many bytes.
const LONGEST_RECORD: usize = 64 << 20;

/// What links send requests by.
pub type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// A link to the master, and the outgoing messages of it. Everything that comes is an event.
pub struct Link {
    master: String,
    client: HttpClient,
    events: UnboundedSender<Event>,
    current: Option<Current>,
}

/// A client for one link or many.
pub fn client() -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(ANSWER_TIMEOUT));
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

struct Current {
    outgoing: UnboundedSender<AgentMessage>,
    task: JoinHandle<()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// `master` is host:port.
    pub fn new(master: String, client: HttpClient, events: UnboundedSender<Event>) -> Self {
        Self { master, client, events, current: None }
    }

    /// Opens a link of that number with that first message, and forgets the older one.
    pub fn connect(&mut self, link: u64, register: AgentMessage) {
        let (outgoing, messages) = unbounded_channel();
        let carrier =
            Carrier { master: self.master.clone(), client: self.client.clone(), events: self.events.clone(), link };
        let task = tokio::spawn(carrier.run(register, messages));
        self.current = Some(Current { outgoing, task });
    }

    /// Sends on the open link, after all that was sent before. Lost when the link breaks.
    pub fn send(&self, message: AgentMessage) {
        let sent = self.current.as_ref().is_some_and(|current| current.outgoing.send(message).is_ok());
        if !sent {
            tracing::debug!("a message to the master is lost: the link is closed");
        }
    }

    /// Closes the link.
    pub fn disconnect(&mut self) {
        self.current = None;
    }

    /// Closes the link after what was sent on it.
    pub async fn flush(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        let (closed, _) = unbounded_channel();
        current.outgoing = closed;
        if timeout(FLUSH_TIMEOUT, &mut current.task).await.is_err() {
            tracing::warn!("the master did not take the agent's last messages in time");
        }
    }
}

/// One connection's work.
struct Carrier {
    master: String,
    client: HttpClient,
    events: UnboundedSender<Event>,
    link: u64,
}

impl Carrier {
    async fn run(self, register: AgentMessage, messages: UnboundedReceiver<AgentMessage>) {
        let reason = match self.open(&register).await {
            Err(reason) => reason,
            Ok((id, body)) => tokio::select! {
                reason = self.receive(body) => reason,
                reason = self.transmit(&id, messages) => reason,
            },
        };
        self.report(Event::LinkClosed { link: self.link, reason });
    }

    fn report(&self, event: Event) {
        if self.events.send(event).is_err() {
            tracing::debug!("the agent has ended");
        }
    }

    async fn open(&self, register: &AgentMessage) -> Result<(String, Incoming), String> {
        let response = self.post(CONNECT_PATH, None, register).await?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            return Err(format!("master {} answers {status}: {}", self.master, String::from_utf8_lossy(&body)));
        }
        let id = response.headers().get(LINK_ID_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let id = id.ok_or_else(|| format!("{} is no km master: it names no link", self.master))?;
        Ok((id, response.into_body()))
    }

    async fn post(
        &self,
        path: &str,
        id: Option<&str>,
        message: &AgentMessage,
    ) -> Result<http::Response<Incoming>, String> {
        let mut request = Request::builder().method(Method::POST).uri(format!("http://{}{path}", self.master));
        if let Some(id) = id {
            request = request.header(LINK_ID_HEADER, id);
        }
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        let request = request.body(Full::from(message.to_record())).map_err(|error| error.to_string())?;
        match timeout(ANSWER_TIMEOUT, self.client.request(request)).await {
            Err(_) => Err(format!("master {} does not answer", self.master)),
            Ok(Err(error)) => Err(format!("cannot reach master {}: {error}", self.master)),
            Ok(Ok(response)) => Ok(response),
        }
    }

    async fn receive(&self, mut body: Incoming) -> String {
        let mut decoder = Decoder::new(LONGEST_RECORD);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return "the master's stream broke".to_owned() };
            let Some(data) = frame.data_ref() else { continue };
            decoder.push(data);
            loop {
                match decoder.next() {
                    Ok(None) => break,
                    Ok(Some(record)) => match MasterMessage::from_record(&record) {
                        Ok(message) => self.report(Event::Master { link: self.link, message }),
                        Err(error) => return error.to_string(),
                    },
                    Err(error) => return error.to_string(),
                }
            }
        }
        "the master closed the stream".to_owned()
    }

    async fn transmit(&self, id: &str, mut messages: UnboundedReceiver<AgentMessage>) -> String {
        while let Some(message) = messages.recv().await {
            match self.post(MESSAGE_PATH, Some(id), &message).await {
                Err(reason) => return reason,
                Ok(response) if !response.status().is_success() => {
                    return format!("master {} answers {}", self.master, response.status());
                }
                // The body is read so that the connection can be used again.
                Ok(response) => {
                    if let Err(error) = response.into_body().collect().await {
                        return error.to_string();
                    }
                }
            }
        }
        "the agent closed the link".to_owned()
    }
}
