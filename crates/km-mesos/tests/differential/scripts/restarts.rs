//! Agents that end and new ones, and a master that is started again.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, again, amounts, info, with},
    player::Player,
};

/// Needs one agent, that notices soon that the master doesn't ping it any more.
pub const RESTARTS: &[Script] = scripts![
    an_agent_that_ends_takes_its_offers_along,
    an_agent_that_ends_takes_its_tasks_along,
    a_framework_comes_back_to_a_new_master_before_the_agent,
    an_agent_comes_back_to_a_new_master_before_the_framework,
];

/// Of the master that these scripts need.
pub const FLAGS: [&str; 2] = ["agent_ping_timeout=1secs", "max_agent_ping_timeouts=5"];

async fn agents(p: &Player, count: u64) -> Result<()> {
    p.until("/state", |state| state["activated_slaves"] == json!(count as f64) || state["activated_slaves"] == count)
        .await?;
    Ok(())
}

// M056, M049
async fn an_agent_that_ends_takes_its_offers_along(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    p.offer(&mut framework).await?;
    let mut suppressed = p.subscribed(json!({ "framework_info": info(&["b"]), "suppressed_roles": ["b"] })).await?;
    p.end("agent-0").await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.expect(&mut framework, "FAILURE").await?;
    p.expect(&mut suppressed, "FAILURE").await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.closed(&mut framework).await?;
    p.start("agent-0").await?;
    agents(p, 1).await?;
    p.quiet(&mut suppressed).await?;
    p.call(&suppressed, "REVIVE", json!({})).await?;
    let offers = p.offers_quietly(&mut suppressed, 1).await?;
    p.note("of the new agent", &amounts(&offers));
    Ok(())
}

// M095, M237
async fn an_agent_that_ends_takes_its_tasks_along(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.end("agent-0").await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    loop {
        let event = framework.stream.news().await?;
        // One agent leaves before its executors have ended, the other after that.
        if event["failure"]["executor_id"].is_object() {
            continue;
        }
        p.note("event", &event);
        if event["type"] == "FAILURE" {
            break;
        }
    }
    p.start("agent-0").await?;
    let offers = p.offers_quietly(&mut framework, 1).await?;
    p.note("of the new agent", &amounts(&offers));
    p.quiet(&mut framework).await
}

async fn note_framework(p: &mut Player, framework: &Framework) -> Result<()> {
    let shown = p.framework_state(framework).await?;
    for field in ["active", "connected", "recovered", "name", "failover_timeout", "checkpoint", "used_resources"] {
        p.note(field, &shown[field]);
    }
    p.note("tasks", &shown["tasks"]);
    Ok(())
}

/// Subscribes again with another name, and `checkpoint` the other way.
async fn changed(p: &mut Player, framework: &Framework) -> Result<Framework> {
    let information = with(again(info(&["a"]), framework), "name", "renamed".into());
    let information = with(with(information, "checkpoint", Value::Bool(true)), "failover_timeout", 7200.0.into());
    p.framework(information).await
}

// M027, M059
async fn a_framework_comes_back_to_a_new_master_before_the_agent(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut executor = p.running(&mut first, &offer, "t").await?;
    p.settled(&first, &mut executor).await?;
    p.kill("master").await?;
    p.start("master").await?;
    let mut framework = p.subscribed(json!({ "framework_info": again(info(&["a"]), &first) })).await?;
    p.note("same id", &(first.id == framework.id).into());
    p.offer(&mut framework).await?;
    note_framework(p, &framework).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await
}

// M023, M059
async fn an_agent_comes_back_to_a_new_master_before_the_framework(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut executor = p.running(&mut first, &offer, "t").await?;
    p.settled(&first, &mut executor).await?;
    p.kill("master").await?;
    p.start("master").await?;
    agents(p, 1).await?;
    note_framework(p, &first).await?;
    let mut framework = changed(p, &first).await?;
    p.offer(&mut framework).await?;
    note_framework(p, &framework).await
}
