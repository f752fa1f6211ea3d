//! Plays calls to one cluster and records what comes back.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Parts},
    framework::Framework,
    normal::Names,
};

/// The scheduler's endpoint.
pub const SCHEDULER: &str = "/api/v1/scheduler";
/// The operator's endpoint.
pub const OPERATOR: &str = "/api/v1";
/// Of a call in JSON.
pub const JSON: [(&str, &str); 2] = [("Content-Type", "application/json"), ("Accept", "application/json")];
/// Nothing takes longer, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// Between two looks at the same thing.
pub const POLL: Duration = Duration::from_millis(20);

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

    /// Adds a line that needs no placeholders to the recording.
    pub fn mark(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Sorts offers by the agent's name.
    pub fn sort_by_agent(&mut self, offers: &mut [Value]) {
        offers.sort_by_key(|offer| self.names.text(offer["agent_id"]["value"].as_str().unwrap_or_default()));
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
        Ok(if body.is_empty() { Value::Null } else { as_v1(serde_json::from_str(&body)?) })
    }

    /// Waits until the condition holds of an operator call's answer.
    pub async fn until_operator(&self, kind: &str, condition: impl Fn(&Value) -> bool) -> Result<Value> {
        let wait = async {
            loop {
                let shown = self.ask(json!({ "type": kind })).await?;
                if condition(&shown) {
                    return anyhow::Ok(shown);
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.with_context(|| format!("{kind} never showed what was awaited"))?
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

/// Some answers Apache Mesos writes past the messages of v1: empty lists are there, which protobuf has none of, and a
/// field that agents had once.
pub fn as_v1(value: Value) -> Value {
    match value {
        Value::Object(mut fields) => {
            if let Some(Value::Object(info)) = fields.get_mut("agent_info") {
                info.remove("checkpoint");
            }
            let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
            let kept = fields.into_iter().filter(|(_, value)| !empty(value));
            Value::Object(kept.map(|(name, value)| (name, as_v1(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(as_v1).collect(),
        other => other,
    }
}

/// What is recorded of a body: JSON as such, so that ids and times in it get placeholders; the parsers' own words are left out.
pub fn body_value(body: &str) -> Value {
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
