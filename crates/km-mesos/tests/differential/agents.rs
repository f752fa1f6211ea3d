//! What scripts ask about agents, and ask of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::framework::Framework;
use crate::player::{DEADLINE, JSON, OPERATOR, POLL, Player, Reply, text};

impl Player {
    /// The id of the registered agent with this attribute `rack`.
    pub async fn agent(&mut self, rack: &str) -> Result<Value> {
        let shown = self.until("/slaves", |shown| find(shown, rack).is_some()).await?;
        let id = find(&shown, rack).context("an agent of this rack")?["id"].clone();
        self.name(id.as_str().unwrap_or_default(), &format!("<agent {rack}>"));
        Ok(json!({ "value": id }))
    }

    /// Waits until the agent is registered and active, or not.
    pub async fn agent_is(&self, rack: &str, active: bool) -> Result<()> {
        let is = |shown: &Value| find(shown, rack).is_some_and(|agent| agent["active"] == true);
        self.until("/slaves", |shown| is(shown) == active).await?;
        Ok(())
    }

    /// Waits until the agent has no frameworks any more.
    pub async fn agent_is_empty(&self, rack: &str) -> Result<()> {
        let address = self.agent_address(rack).await?;
        let wait = async {
            loop {
                let response = self.send_to(&address, "GET", "/state", &[], "").await?;
                let shown: Value = serde_json::from_str(&text(response).await?)?;
                if shown["frameworks"].as_array().is_some_and(Vec::is_empty) {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.context("the agent keeps its frameworks")?
    }

    /// Waits until an agent that was told to end has done so.
    pub async fn ended(&self, part: &str) -> Result<()> {
        self.parts.ended(part).await
    }

    /// Where the agent listens, `host:port`.
    pub async fn agent_address(&self, rack: &str) -> Result<String> {
        let shown = self.state("/slaves").await?;
        let pid = find(&shown, rack).context("an agent of this rack")?["pid"].as_str().map(str::to_owned);
        let pid = pid.context("it has a pid")?;
        Ok(pid.split_once('@').context("it names the address")?.1.to_owned())
    }

    /// A call of the agent's operator API; recorded.
    pub async fn agent_call(&mut self, rack: &str, call: Value) -> Result<Value> {
        let address = self.agent_address(rack).await?;
        self.agent_call_at(&address, &JSON, call).await.map(|reply| reply.json())
    }

    /// As `agent_call`, with these headers.
    pub async fn agent_call_at(&mut self, address: &str, headers: &[(&str, &str)], call: Value) -> Result<Reply> {
        let response = self.send_to(address, "POST", OPERATOR, headers, call.to_string()).await?;
        self.take(&format!("agent {}", call["type"]), response).await
    }

    /// What a read endpoint of the agent shows; not recorded.
    pub async fn agent_state(&self, rack: &str, path: &str) -> Result<Value> {
        let address = self.agent_address(rack).await?;
        let response = self.send_to(&address, "GET", path, &[], "").await?;
        Ok(serde_json::from_str(&text(response).await?)?)
    }

    /// Waits for the FAILURE of an executor that began under an earlier process of its agent: how it ended is known to
    /// Apache Mesos' agent only, so that is not recorded.
    pub async fn await_failure(&mut self, framework: &mut Framework) -> Result<()> {
        loop {
            let event = framework.stream.news().await.context("awaiting FAILURE")?;
            if event["type"] == "FAILURE" {
                return Ok(());
            }
            self.note("event", &event);
        }
    }

    /// Waits for so many RESCIND events, whose order says nothing.
    pub async fn rescinded(&mut self, framework: &mut Framework, count: usize) -> Result<()> {
        for _ in 0..count {
            let event = framework.stream.news().await.context("awaiting RESCIND")?;
            self.note("event", &event["type"]);
        }
        Ok(())
    }

    /// Records these fields of a value.
    pub fn note_fields(&mut self, what: &str, value: &Value, fields: &[&str]) {
        for field in fields {
            self.note(what, &json!({ *field: value[field] }));
        }
    }

    /// The master's metrics. Of `/metrics/snapshot` Apache Mesos shows no more than two in a second.
    pub async fn all_metrics(&self) -> Result<BTreeMap<String, f64>> {
        let shown = self.ask(json!({ "type": "GET_METRICS", "get_metrics": {} })).await?;
        let all = shown["get_metrics"]["metrics"].as_array().cloned().unwrap_or_default();
        Ok(all.iter().filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["value"].as_f64()?))).collect())
    }

    /// Waits until a metric of the master is as it should be.
    pub async fn until_metric(&self, name: &str, condition: impl Fn(f64) -> bool) -> Result<()> {
        let wait = async {
            while !self.all_metrics().await?.get(name).is_some_and(|value| condition(*value)) {
                tokio::time::sleep(POLL).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(DEADLINE, wait).await.with_context(|| format!("{name} is never what was awaited"))?
    }

    /// Records these metrics of the master.
    pub async fn metrics(&mut self, names: &[&str]) -> Result<()> {
        let shown = self.all_metrics().await?;
        for name in names {
            let value = shown.get(*name).map_or(Value::Null, |value| (*value).into());
            self.note(name, &value);
        }
        Ok(())
    }

    /// Records what operators see of the agent's state.
    pub async fn note_agent(&mut self, rack: &str) -> Result<()> {
        let all = self.ask(json!({ "type": "GET_AGENTS" })).await?;
        let agents = all["get_agents"]["agents"].as_array().cloned().unwrap_or_default();
        let is = |agent: &&Value| agent["agent_info"]["attributes"][0]["text"]["value"] == rack;
        let agent = agents.iter().find(is).cloned().unwrap_or_default();
        self.note_fields("agent", &agent, &["active", "deactivated", "drain_info", "estimated_drain_start_time"]);
        for page in ["/state", "/state-summary", "/slaves"] {
            let shown = self.state(page).await?;
            let agent = find(&shown, rack).unwrap_or_default();
            let mut fields = agent.as_object().cloned().unwrap_or_default();
            fields.retain(|name, _| {
                ["active", "deactivated", "drain_info", "estimated_drain_start_time_seconds"].contains(&name.as_str())
            });
            self.note(page, &Value::Object(fields));
        }
        Ok(())
    }
}

fn find(shown: &Value, rack: &str) -> Option<Value> {
    let agents = shown["slaves"].as_array()?;
    agents.iter().find(|agent| agent["attributes"]["rack"] == rack).cloned()
}
