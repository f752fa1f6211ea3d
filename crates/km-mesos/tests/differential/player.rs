//! Plays calls to one cluster and records what comes back.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Parts},
    framework::Framework,
    normal::Names,
    stream::Stream,
};

/// The scheduler's endpoint.
pub const SCHEDULER: &str = "/api/v1/scheduler";
/// The operator's endpoint.
pub const OPERATOR: &str = "/api/v1";
const JSON: [(&str, &str); 2] = [("Content-Type", "application/json"), ("Accept", "application/json")];
/// Nothing takes longer, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// Between two looks at the same thing.
pub const POLL: Duration = Duration::from_millis(20);
/// After so many passes of the allocator, what it won't offer it never will.
const QUIET_PASSES: f64 = 4.0;

/// An answer that is complete.
pub struct Reply {
    /// The body as text.
    pub body: String,
}

impl Reply {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}

/// One script's player on one cluster.
pub struct Player {
    http: reqwest::Client,
    master: String,
    /// The cluster's processes.
    pub parts: Parts,
    /// `principal:secret` that calls are made with.
    pub login: Option<String>,
    /// Where executors of this script put their environment.
    pub folder: PathBuf,
    names: Names,
    lines: Vec<String>,
}

impl Player {
    /// A player with an empty recording, that knows the agents by their attribute `rack`.
    pub async fn new(cluster: &Cluster) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("play-").tempdir_in(cluster.folder.path())?.keep();
        let names = Names::new(cluster.folder.path().display().to_string());
        let http = reqwest::Client::builder().no_proxy().build()?;
        let mut player = Self {
            http,
            master: cluster.master.clone(),
            parts: cluster.parts.clone(),
            login: cluster.login.clone(),
            folder,
            names,
            lines: Vec::new(),
        };
        let play = player.folder.file_name().context("the folder has a name")?.to_string_lossy().into_owned();
        player.names.set_text(&play, "<play>");
        for agent in player.state("/slaves").await?["slaves"].as_array().into_iter().flatten() {
            let (Some(id), Some(rack)) = (agent["id"].as_str(), agent["attributes"]["rack"].as_str()) else { continue };
            player.names.set(id, &format!("<agent {rack}>"));
        }
        Ok(player)
    }

    /// The recording.
    pub fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// Adds to the recording.
    pub fn note(&mut self, what: &str, value: &Value) {
        let value = self.names.value(value);
        self.lines.push(format!("{what}: {value}"));
    }

    /// Sends a request as it is given; nothing is recorded.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Result<reqwest::Response> {
        self.send_to(&self.master, method, path, headers, body).await
    }

    /// As `send`, to an agent's `host:port`.
    pub async fn send_to(
        &self,
        address: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Result<reqwest::Response> {
        let mut request = self.http.request(method.parse()?, format!("http://{address}{path}")).body(body);
        if let Some((principal, secret)) = self.login.as_deref().and_then(|login| login.split_once(':')) {
            request = request.basic_auth(principal, Some(secret));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = tokio::time::timeout(DEADLINE, request.send()).await;
        sent.with_context(|| format!("{method} {path}: no answer"))?.with_context(|| format!("{method} {path}"))
    }

    /// Records the status and the headers that matter.
    pub fn note_head(&mut self, what: &str, response: &reqwest::Response) {
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut head = json!({ "status": response.status().as_u16() });
        for name in ["content-type", "allow", "www-authenticate", "location", "transfer-encoding"] {
            if let Some(value) = text(name) {
                head[name] = value.into();
            }
        }
        if text("mesos-stream-id").is_some_and(|id| !id.is_empty()) {
            head["mesos-stream-id"] = true.into();
        }
        self.note(what, &head);
    }

    /// Sends a request as it is given, and records the answer.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Result<Reply> {
        let response = self.send(method, path, headers, body).await?;
        self.take(&format!("{method} {path}"), response).await
    }

    /// Records a whole answer.
    pub async fn take(&mut self, what: &str, response: reqwest::Response) -> Result<Reply> {
        self.note_head(what, &response);
        let body = text(response).await.with_context(|| what.to_owned())?;
        self.note("body", &body_value(&body));
        Ok(Reply { body })
    }

    /// Names an id, wherever it appears from now on.
    pub fn name(&mut self, id: &str, name: &str) {
        self.names.set(id, name);
    }

    /// Posts JSON with the usual headers and more, and records the answer.
    pub async fn post(&mut self, path: &str, more: &[(&str, &str)], body: &Value) -> Result<Reply> {
        let headers: Vec<(&str, &str)> = JSON.iter().chain(more).copied().collect();
        self.request("POST", path, &headers, body.to_string()).await
    }

    /// A call of the operator's API; recorded.
    pub async fn operator(&mut self, call: Value) -> Result<Value> {
        self.post(OPERATOR, &[], &call).await.map(|reply| reply.json())
    }

    /// A call of the operator's API; not recorded, but must succeed.
    pub async fn ask(&self, call: Value) -> Result<Value> {
        let response = self.send("POST", OPERATOR, &JSON, call.to_string()).await?;
        let status = response.status();
        let body = text(response).await?;
        ensure!(status.is_success(), "{call}: {status} {body}");
        Ok(if body.is_empty() { Value::Null } else { serde_json::from_str(&body)? })
    }

    /// What a read endpoint shows; not recorded.
    pub async fn state(&self, path: &str) -> Result<Value> {
        let response = self.send("GET", path, &[], "").await?;
        Ok(serde_json::from_str(&text(response).await.with_context(|| path.to_owned())?)?)
    }

    /// What `/state` shows of a framework, completed ones included; not recorded.
    pub async fn framework_state(&self, framework: &Framework) -> Result<Value> {
        let state = self.state("/state").await?;
        let all = [&state["frameworks"], &state["completed_frameworks"]];
        let mut all = all.into_iter().filter_map(Value::as_array).flatten();
        Ok(all.find(|shown| shown["id"] == framework.id).cloned().unwrap_or(Value::Null))
    }

    /// Waits until the condition holds of what a read endpoint shows.
    pub async fn until(&self, path: &str, condition: impl Fn(&Value) -> bool) -> Result<Value> {
        let wait = async {
            loop {
                let shown = self.state(path).await?;
                if condition(&shown) {
                    return anyhow::Ok(shown);
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.with_context(|| format!("{path} never showed what was awaited"))?
    }

    /// Kills `master` or `agent-0` on the spot.
    pub async fn kill(&self, part: &str) -> Result<()> {
        self.parts.signal(part, "KILL").await
    }

    /// Lets an agent leave the cluster: it ends its executors and tells the master.
    pub async fn end(&self, agent: &str) -> Result<()> {
        self.parts.signal(agent, "USR1").await
    }

    /// Stops an agent's clock: it neither reads nor answers.
    pub async fn freeze(&self, agent: &str) -> Result<()> {
        self.parts.signal(agent, "STOP").await
    }

    /// Lets it go on.
    pub async fn thaw(&self, agent: &str) -> Result<()> {
        self.parts.signal(agent, "CONT").await
    }

    /// Starts a part again, and waits until the master leads and has recovered.
    pub async fn start(&self, part: &str) -> Result<()> {
        self.start_with(part, &[]).await
    }

    /// As `start`, with these flags changed.
    pub async fn start_with(&self, part: &str, changed: &[&str]) -> Result<()> {
        self.parts.start(part, changed).await?;
        let wait = async {
            while !self.takes_calls().await {
                tokio::time::sleep(POLL).await;
            }
        };
        let reason = || format!("the master does not lead; {part} logged last:\n{}", self.parts.log(part));
        tokio::time::timeout(DEADLINE, wait).await.with_context(reason)
    }

    /// Whether the master is past its recovery: it finds fault with a wrong call then, and answers 503 before.
    async fn takes_calls(&self) -> bool {
        let leads = self.state("/state").await.is_ok_and(|state| state["elected_time"].is_number());
        let wrong = self.send("POST", SCHEDULER, &[("Content-Type", "application/json")], "{}").await;
        leads && wrong.is_ok_and(|answer| answer.status() == 400)
    }

    /// Waits for a few passes of the allocator.
    pub async fn passes(&self) -> Result<()> {
        const RUNS: &str = "allocator/mesos/allocation_runs";
        let runs = |metrics: &Value| metrics[RUNS].as_f64().unwrap_or_default();
        let before = runs(&self.state("/metrics/snapshot").await?);
        self.until("/metrics/snapshot", |metrics| runs(metrics) >= before + QUIET_PASSES).await?;
        Ok(())
    }

    /// Opens a subscription. Records the head of the answer, and the body unless it is a stream.
    pub async fn open(&mut self, headers: &[(&str, &str)], call: &Value) -> Result<Option<(Stream, String)>> {
        let response = self.send("POST", SCHEDULER, headers, call.to_string()).await?;
        self.note_head("SUBSCRIBE", &response);
        if response.status() != reqwest::StatusCode::OK {
            self.note("body", &body_value(&text(response).await?));
            return Ok(None);
        }
        let stream_id = response.headers().get("Mesos-Stream-Id").and_then(|value| value.to_str().ok());
        let stream_id = stream_id.unwrap_or_default().to_owned();
        Ok(Some((Stream::read(response), stream_id)))
    }

    /// Subscribes; the stream may begin with anything.
    pub async fn subscribe(&mut self, subscribe: Value) -> Result<Framework> {
        let mut call = json!({ "type": "SUBSCRIBE", "subscribe": subscribe });
        let id = call["subscribe"]["framework_info"]["id"].clone();
        if !id.is_null() {
            call["framework_id"] = id;
        }
        let opened = self.open(&JSON, &call).await?;
        let (stream, stream_id) = opened.context("SUBSCRIBE got no stream")?;
        Ok(Framework { id: String::new(), stream_id, stream })
    }

    /// Subscribes and expects success.
    pub async fn subscribed(&mut self, subscribe: Value) -> Result<Framework> {
        let mut framework = self.subscribe(subscribe).await?;
        let event = self.expect(&mut framework, "SUBSCRIBED").await?;
        framework.id = event["subscribed"]["framework_id"]["value"].as_str().unwrap_or_default().to_owned();
        ensure!(!framework.id.is_empty(), "SUBSCRIBED without an id");
        Ok(framework)
    }

    /// A subscribed framework with this information.
    pub async fn framework(&mut self, info: Value) -> Result<Framework> {
        self.subscribed(json!({ "framework_info": info })).await
    }

    /// The next event of the type, recorded with all before it, but for heartbeats and offers that are not taken.
    pub async fn expect(&mut self, framework: &mut Framework, kind: &str) -> Result<Value> {
        loop {
            let event = framework.stream.news().await.with_context(|| format!("awaiting {kind}"))?;
            self.note("event", &event);
            if event["type"] == kind {
                return Ok(event);
            }
        }
    }

    /// The next offers, however they are spread over events, in the order of the agents.
    pub async fn offers(&mut self, framework: &mut Framework, count: usize) -> Result<Vec<Value>> {
        let mut offers = self.offers_quietly(framework, count).await?;
        self.sort_by_agent(&mut offers);
        for offer in &offers {
            self.note("offer", offer);
        }
        Ok(offers)
    }

    /// Like `offers`, but not recorded.
    pub async fn offers_quietly(&mut self, framework: &mut Framework, count: usize) -> Result<Vec<Value>> {
        while framework.stream.offers.len() < count {
            if let Some(event) = framework.stream.step().await.context("awaiting OFFERS")? {
                self.note("event", &event);
            }
        }
        Ok(framework.stream.offers.drain(..count).collect())
    }

    /// The only next offer.
    pub async fn offer(&mut self, framework: &mut Framework) -> Result<Value> {
        Ok(self.offers(framework, 1).await?.remove(0))
    }

    /// Sorts offers by the agent's name.
    pub fn sort_by_agent(&mut self, offers: &mut [Value]) {
        offers.sort_by_key(|offer| self.names.text(offer["agent_id"]["value"].as_str().unwrap_or_default()));
    }

    /// Records what came until the allocator had its chance: nothing, if all is well.
    pub async fn quiet(&mut self, framework: &mut Framework) -> Result<()> {
        self.passes().await?;
        let mut events: Vec<Value> = framework.stream.offers.drain(..).collect();
        events.extend(framework.stream.waiting());
        self.note("quiet", &Value::Array(events));
        Ok(())
    }

    /// Records the end of the stream and the events before it.
    pub async fn closed(&mut self, framework: &mut Framework) -> Result<()> {
        while let Some(event) = framework.stream.next().await? {
            if event["type"] != "HEARTBEAT" && event["type"] != "OFFERS" {
                self.note("event", &event);
            }
        }
        self.note("closed", &Value::Null);
        Ok(())
    }

    /// A call of a framework, recorded. `body` is the whole call without its id and type.
    pub async fn call(&mut self, framework: &Framework, kind: &str, body: Value) -> Result<Reply> {
        let mut call = body;
        call["type"] = kind.into();
        call["framework_id"] = json!({ "value": framework.id });
        self.lines.push(format!("call {kind}"));
        self.post(SCHEDULER, &[("Mesos-Stream-Id", &framework.stream_id)], &call).await
    }

    /// Removes the script's frameworks, and waits until they are gone.
    pub async fn tidy(&mut self) -> Result<()> {
        fs::write(self.folder.join("stop"), "")?;
        let all = self.ask(json!({ "type": "GET_FRAMEWORKS" })).await?;
        for framework in all["get_frameworks"]["frameworks"].as_array().into_iter().flatten() {
            let id = &framework["framework_info"]["id"];
            let call = json!({ "type": "TEARDOWN", "teardown": { "framework_id": id } });
            // One that is gone by itself meanwhile is no trouble.
            self.send("POST", OPERATOR, &JSON, call.to_string()).await?;
        }
        self.until("/frameworks", |shown| shown["frameworks"].as_array().is_none_or(Vec::is_empty)).await?;
        Ok(())
    }
}

/// The whole body of an answer.
pub async fn text(response: reqwest::Response) -> Result<String> {
    Ok(tokio::time::timeout(DEADLINE, response.text()).await.context("the body does not end")??)
}

/// JSON as such, so that ids and times in it get placeholders; the parsers' own words are left out.
fn body_value(body: &str) -> Value {
    const PARSERS: [&str; 3] = [
        "Failed to parse body into JSON: ",
        "Failed to convert JSON into Call protobuf: ",
        "Failed to parse body into Call protobuf",
    ];
    if let Some(known) = PARSERS.iter().find(|known| body.starts_with(*known)) {
        return (*known).into();
    }
    let shortened = || without_the_patterns_fault(body).unwrap_or(body).into();
    serde_json::from_str(body).unwrap_or_else(|_| shortened())
}

/// Regular expressions are RE2's there: its own words for what is wrong are left out.
pub fn without_the_patterns_fault(text: &str) -> Option<&str> {
    let end = ["Failed to construct regex from pattern '", "' is too complex"];
    end.iter().find_map(|known| text.find(known).and_then(|start| text.get(..start + known.len())))
}
