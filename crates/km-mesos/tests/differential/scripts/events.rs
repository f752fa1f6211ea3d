//! The stream of events for operators.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{accept, again, info, launch, with},
    player::{JSON, OPERATOR, Player, as_v1},
    stream::Stream,
};

/// Needs one agent.
pub const EVENTS: &[Script] = scripts![
    a_stream_of_events_begins_with_the_state,
    tasks_are_told_as_they_change,
    health_is_told_too,
    frameworks_are_told_as_they_come_and_go,
    agents_are_told_as_they_come_and_go,
];

/// An operator's subscription. The state in its first event is not recorded.
pub async fn subscribe(p: &mut Player) -> Result<Stream> {
    let (stream, _) = open(p).await?;
    Ok(stream)
}

/// As `subscribe`, with the state.
pub async fn open(p: &mut Player) -> Result<(Stream, Value)> {
    let response = p.send("POST", OPERATOR, &JSON, json!({ "type": "SUBSCRIBE" }).to_string()).await?;
    p.note_head("SUBSCRIBE", &response);
    let mut stream = Stream::read(response);
    let event = stream.next().await?.context("the stream is open")?;
    p.note("first event", &event["type"]);
    Ok((stream, event["subscribed"].clone()))
}

/// The next event, recorded.
pub async fn event(p: &mut Player, stream: &mut Stream, kind: &str) -> Result<Value> {
    let event = stream.event().await.with_context(|| format!("an operator awaits {kind}"))?;
    p.note("operator event", &event);
    anyhow::ensure!(event["type"] == kind, "an operator awaits {kind}");
    Ok(event)
}

// M308
async fn a_stream_of_events_begins_with_the_state(p: &mut Player) -> Result<()> {
    let response = p.send("POST", OPERATOR, &JSON, json!({ "type": "SUBSCRIBE" }).to_string()).await?;
    p.note_head("SUBSCRIBE", &response);
    let mut stream = Stream::read(response);
    let first = stream.next().await?.context("the stream is open")?;
    p.note("heartbeat_interval_seconds", &first["subscribed"]["heartbeat_interval_seconds"]);
    let state = &first["subscribed"]["get_state"];
    let mut members: Vec<&String> = state.as_object().context("a state")?.keys().collect();
    members.sort();
    p.note("members", &json!(members));
    p.note("get_agents", &as_v1(state["get_agents"].clone()));
    let second = stream.next().await?.context("the stream is open")?;
    p.note("second event", &second);
    Ok(())
}

// M304
async fn tasks_are_told_as_they_change(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let mut stream = subscribe(p).await?;
    let check = json!({ "type": "COMMAND", "command": { "value": "true" } });
    let task = with(p.task(&offer, "t", "t"), "health_check", check);
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    event(p, &mut stream, "TASK_ADDED").await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    for state in ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"] {
        p.passes_on(&mut executor, &mut framework, "t", state).await?;
        event(p, &mut stream, "TASK_UPDATED").await?;
    }
    Ok(())
}

// M305
async fn health_is_told_too(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    let mut stream = subscribe(p).await?;
    for healthy in [true, false] {
        let more = json!({ "healthy": healthy, "reason": "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED" });
        p.update_with(&mut executor, "t", "TASK_RUNNING", more).await?;
        p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
        p.acknowledged(&mut framework).await?;
        event(p, &mut stream, "TASK_UPDATED").await?;
    }
    Ok(())
}

// M307
async fn frameworks_are_told_as_they_come_and_go(p: &mut Player) -> Result<()> {
    let mut stream = subscribe(p).await?;
    let framework = p.framework(info(&["*"])).await?;
    event(p, &mut stream, "FRAMEWORK_ADDED").await?;
    let information = with(again(info(&["*"]), &framework), "name", "renamed".into());
    let mut second = p.framework(information.clone()).await?;
    event(p, &mut stream, "FRAMEWORK_UPDATED").await?;
    let body = json!({ "framework_info": with(information, "name", "renamed again".into()) });
    p.call(&second, "UPDATE_FRAMEWORK", json!({ "update_framework": body })).await?;
    event(p, &mut stream, "FRAMEWORK_UPDATED").await?;
    p.call(&second, "TEARDOWN", json!({})).await?;
    event(p, &mut stream, "FRAMEWORK_REMOVED").await?;
    p.closed(&mut second).await
}

// M303, M236
async fn agents_are_told_as_they_come_and_go(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    p.offers_quietly(&mut framework, 1).await?;
    let removals = ["reason_unregistered", "reason_unhealthy", "reason_registered"];
    let mut stream = subscribe(p).await?;
    p.end("agent-0").await?;
    event(p, &mut stream, "AGENT_REMOVED").await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.expect(&mut framework, "FAILURE").await?;
    for name in removals {
        p.metrics(&[&format!("master/slave_removals/{name}")]).await?;
    }
    p.start("agent-0").await?;
    let added = stream.event().await?;
    // The embedded agent is a new one now, the other came back.
    p.note("operator event", &added["type"]);
    p.note_fields("agent", &added["agent_added"]["agent"], &["active", "version", "total_resources"]);
    Ok(())
}
