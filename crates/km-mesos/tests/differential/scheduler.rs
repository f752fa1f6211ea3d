//! What scripts do as schedulers: subscribe, call, and wait for events.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    framework::{Framework, decline},
    player::{DEADLINE, JSON, Player, Reply, SCHEDULER, body_value, text},
    stream::Stream,
};

impl Player {
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

    /// The next offer, once it holds so many cpus and is the only one; what comes before is handed back. Not recorded.
    pub async fn only_offer_of(&mut self, framework: &mut Framework, cpus: f64) -> Result<Value> {
        let holds = |offer: &Value| {
            let all = offer["resources"].as_array().into_iter().flatten();
            all.filter(|one| one["name"] == "cpus").filter_map(|one| one["scalar"]["value"].as_f64()).sum::<f64>()
        };
        let wait = async {
            loop {
                let count = framework.stream.offers.len().max(1);
                let offers = self.offers_quietly(framework, count).await?;
                if let [offer] = &offers[..]
                    && holds(offer) == cpus
                {
                    return anyhow::Ok(offer.clone());
                }
                let mut call = decline(&offers, 0.0);
                call["type"] = "DECLINE".into();
                call["framework_id"] = json!({ "value": framework.id });
                let headers = [JSON[0], ("Mesos-Stream-Id", &framework.stream_id)];
                self.send("POST", SCHEDULER, &headers, call.to_string()).await?;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.with_context(|| format!("no offer of {cpus} cpus"))?
    }

    /// Records what came until the allocator had its chance: nothing, if all is well.
    pub async fn quiet(&mut self, framework: &mut Framework) -> Result<()> {
        let events = self.until_now(framework).await?;
        self.note("quiet", &Value::Array(events));
        Ok(())
    }

    /// As `quiet`, where offers don't matter.
    pub async fn quiet_but_for_offers(&mut self, framework: &mut Framework) -> Result<()> {
        let mut events = self.until_now(framework).await?;
        events.retain(|event| event["type"] != "OFFERS" && event["resources"].is_null());
        self.note("quiet", &Value::Array(events));
        Ok(())
    }

    /// Lets the allocator have its chance. Gives all that has come by then and was not taken: offers that were kept, then
    /// events.
    pub async fn until_now(&mut self, framework: &mut Framework) -> Result<Vec<Value>> {
        self.passes().await?;
        let mut events: Vec<Value> = framework.stream.offers.drain(..).collect();
        events.extend(framework.stream.inverse.drain(..));
        // What the master sent before its answer to this comes before it.
        let asked = json!({ "operation_id": { "value": "until now" } });
        let call = json!({
            "type": "RECONCILE_OPERATIONS", "framework_id": { "value": framework.id },
            "reconcile_operations": { "operations": [asked] },
        });
        let headers = [JSON[0], JSON[1], ("Mesos-Stream-Id", framework.stream_id.as_str())];
        let answer = self.send("POST", SCHEDULER, &headers, call.to_string()).await?;
        ensure!(answer.status().is_success(), "RECONCILE_OPERATIONS: {}", answer.status());
        loop {
            let event = framework.stream.event().await.context("awaiting the mark")?;
            if event["update_operation_status"]["status"]["operation_id"]["value"] == "until now" {
                return Ok(events);
            }
            events.push(event);
        }
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
        self.mark(format!("call {kind}"));
        self.post(SCHEDULER, &[("Mesos-Stream-Id", &framework.stream_id)], &call).await
    }
}
