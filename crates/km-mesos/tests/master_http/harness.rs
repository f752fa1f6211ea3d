//! A running master and clients of it.

use std::time::Duration;

use km_mesos::master::{Flags, start};
use km_mesos_proto::recordio;
use reqwest::{Client, RequestBuilder, Response, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// No step of a test takes longer, or it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Master {
    pub base: String,
    pub client: Client,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Master {
    pub async fn start(flags: Flags) -> Self {
        // The client library wants a provider even for plain HTTP; another test may have installed it.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let stop = CancellationToken::new();
        let started = start(Flags { port: 0, ..flags }, stop.clone()).await.expect("the master starts");
        let policy = reqwest::redirect::Policy::none();
        let client = Client::builder().timeout(PATIENCE).redirect(policy).build().expect("a client");
        Self { base: format!("http://{}", started.address), client, stop, task: started.task }
    }

    pub async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends in time").expect("no panic").expect("no error");
    }

    /// `127.0.0.1:port`.
    pub fn authority(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    pub fn post(&self, path: &str, content_type: Option<&str>, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.base)).body(body);
        match content_type {
            Some(kind) => request.header(header::CONTENT_TYPE, kind),
            None => request,
        }
    }

    pub fn call(&self, body: &Value) -> RequestBuilder {
        self.post("/api/v1/scheduler", Some("application/json"), body.to_string())
    }

    pub fn operator(&self, body: &Value) -> RequestBuilder {
        self.post("/api/v1/operator", Some("application/json"), body.to_string())
    }

    pub async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.base)).send().await.expect("an answer")
    }

    pub async fn page(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.expect("JSON")
    }

    pub async fn subscribe(&self, id: Option<&str>) -> Stream {
        let response = send(self.call(&subscription(id))).await;
        assert_eq!(response.status(), 200);
        let mut stream = Stream::of(response);
        let first = stream.next().await.expect("SUBSCRIBED");
        stream.id = first["subscribed"]["framework_id"]["value"].as_str().unwrap_or_default().to_owned();
        stream
    }
}

pub async fn send(request: RequestBuilder) -> Response {
    request.send().await.expect("an answer")
}

pub fn subscription(id: Option<&str>) -> Value {
    let info = json!({"user": "root", "name": "test", "failover_timeout": 3600.0, "unknown": 1});
    let mut call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": info}});
    if let Some(id) = id {
        call["framework_id"] = json!({"value": id});
        call["subscribe"]["framework_info"]["id"] = json!({"value": id});
    }
    call
}

/// An event stream.
pub struct Stream {
    response: Response,
    decoder: recordio::Decoder,
    pub id: String,
    pub stream_id: String,
}

impl Stream {
    pub fn of(response: Response) -> Self {
        let stream_id = response.headers().get("mesos-stream-id").and_then(|value| value.to_str().ok());
        let stream_id = stream_id.unwrap_or_default().to_owned();
        Self { response, decoder: recordio::Decoder::new(1 << 20), id: String::new(), stream_id }
    }

    /// The next record; none when the stream has ended.
    pub async fn next_record(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(record) = self.decoder.next().expect("RecordIO") {
                return Some(record.to_vec());
            }
            let chunk = self.response.chunk().await.expect("the stream is whole")?;
            self.decoder.push(&chunk);
        }
    }

    pub async fn next(&mut self) -> Option<Value> {
        self.next_record().await.map(|record| serde_json::from_slice(&record).expect("JSON"))
    }

    pub async fn next_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event["type"] == kind {
                return event;
            }
        }
    }
}
