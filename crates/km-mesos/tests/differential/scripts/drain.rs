//! Agents that are deactivated and drained.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, accept, info, launch, with},
    player::Player,
};

/// Needs one agent.
pub const DRAIN: &[Script] = scripts![
    an_idle_agent_is_drained_at_once,
    a_deactivated_agent_is_offered_again_when_it_is_reactivated,
    draining_is_refused_for_good_reasons,
    draining_kills_what_runs,
    draining_kills_what_has_not_begun,
];

/// Needs one agent that may be killed.
pub const DRAIN_WHILE_AWAY: &[Script] = scripts![an_agent_that_is_away_is_drained_when_it_is_back];

/// DRAIN_AGENT.
pub async fn drain(p: &mut Player, agent: &Value, more: Value) -> Result<()> {
    let mut body = more;
    body["agent_id"] = agent.clone();
    p.operator(json!({ "type": "DRAIN_AGENT", "drain_agent": body })).await?;
    Ok(())
}

/// DEACTIVATE_AGENT.
pub async fn deactivate(p: &mut Player, agent: &Value) -> Result<()> {
    p.operator(json!({ "type": "DEACTIVATE_AGENT", "deactivate_agent": { "agent_id": agent } })).await?;
    Ok(())
}

/// REACTIVATE_AGENT.
pub async fn reactivate(p: &mut Player, agent: &Value) -> Result<()> {
    p.operator(json!({ "type": "REACTIVATE_AGENT", "reactivate_agent": { "agent_id": agent } })).await?;
    Ok(())
}

/// Waits until the agent is drained.
pub async fn drained(p: &mut Player) -> Result<()> {
    p.until("/slaves", |shown| shown["slaves"][0]["drain_info"]["state"] == "DRAINED").await?;
    Ok(())
}

/// A framework whose executors outlive their agent's process.
pub async fn checkpointing(p: &mut Player) -> Result<Framework> {
    p.framework(with(info(&["*"]), "checkpoint", true.into())).await
}

// M268
async fn an_idle_agent_is_drained_at_once(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut framework = p.framework(info(&["*"])).await?;
    p.offer(&mut framework).await?;
    drain(p, &agent, json!({ "max_grace_period": { "seconds": 10 } })).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.quiet(&mut framework).await?;
    p.note_agent("r0").await?;
    p.metrics(&["master/slaves_active", "master/slaves_inactive"]).await?;
    drain(p, &agent, json!({})).await?;
    drained(p).await?;
    p.note_agent("r0").await?;
    reactivate(p, &agent).await?;
    p.offer(&mut framework).await?;
    p.note_agent("r0").await?;
    reactivate(p, &agent).await
}

async fn a_deactivated_agent_is_offered_again_when_it_is_reactivated(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    deactivate(p, &agent).await?;
    p.note_agent("r0").await?;
    deactivate(p, &agent).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.quiet(&mut framework).await?;
    reactivate(p, &agent).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M273
async fn draining_is_refused_for_good_reasons(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let unknown = json!({ "value": "unknown" });
    for id in [&unknown, &Value::Null, &json!({})] {
        drain(p, id, json!({})).await?;
        deactivate(p, id).await?;
        reactivate(p, id).await?;
    }
    for kind in ["DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT"] {
        p.operator(json!({ "type": kind })).await?;
    }
    for machine in [json!({ "hostname": "127.0.0.1", "ip": "127.0.0.1" }), json!({ "ip": "127.0.0.1" })] {
        super::maintenance::schedule(p, &[&[&machine]], 3600.0).await?;
        drain(p, &agent, json!({})).await?;
        deactivate(p, &agent).await?;
    }
    super::maintenance::schedule(p, &[], 0.0).await?;
    reactivate(p, &agent).await
}

// M269, M272, M274
async fn draining_kills_what_runs(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    for grace in [None, Some(json!({ "seconds": 3, "nanos": 500 }))] {
        let mut framework = checkpointing(p).await?;
        let offer = p.offer(&mut framework).await?;
        let mut executor = p.running(&mut framework, &offer, "t").await?;
        drain(p, &agent, json!({ "max_grace_period": grace })).await?;
        p.executor_event(&mut executor, "KILL").await?;
        p.note_agent("r0").await?;
        p.agent_call("r0", json!({ "type": "GET_AGENT" })).await?;
        let shown = p.agent_state("r0", "/state").await?;
        p.note_fields("/state", &shown, &["drain_config", "estimated_drain_start_time_seconds"]);
        reactivate(p, &agent).await?;
        drain(p, &agent, json!({})).await?;
        p.executor_event(&mut executor, "KILL").await?;
        p.passes_on(&mut executor, &mut framework, "t", "TASK_KILLED").await?;
        drained(p).await?;
        p.note_agent("r0").await?;
        // The agent goes on draining until the executor has ended.
        executor.exit(0)?;
        p.expect(&mut framework, "FAILURE").await?;
        p.agent_is_empty("r0").await?;
        p.agent_call("r0", json!({ "type": "GET_AGENT" })).await?;
        let shown = p.framework_state(&framework).await?;
        p.note("completed", &shown["completed_tasks"]);
        p.call(&framework, "REVIVE", json!({})).await?;
        p.quiet(&mut framework).await?;
        reactivate(p, &agent).await?;
        p.offer(&mut framework).await?;
        p.call(&framework, "TEARDOWN", json!({})).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

// M274
async fn draining_kills_what_has_not_begun(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut framework = checkpointing(p).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "t");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    p.executor_begins(&framework, "t").await?;
    drain(p, &agent, json!({})).await?;
    p.acknowledged(&mut framework).await?;
    drained(p).await?;
    p.executor_is_sent_home(&framework, "t").await?;
    p.expect(&mut framework, "FAILURE").await?;
    p.agent_is_empty("r0").await?;
    reactivate(p, &agent).await
}

// M271
async fn an_agent_that_is_away_is_drained_when_it_is_back(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut framework = checkpointing(p).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.settled(&framework, &mut executor).await?;
    p.kill("agent-0").await?;
    p.agent_is("r0", false).await?;
    p.note_agent("r0").await?;
    drain(p, &agent, json!({ "max_grace_period": { "seconds": 1 } })).await?;
    p.note_agent("r0").await?;
    p.start("agent-0").await?;
    p.executor_returns(&mut executor, &[]).await?;
    p.executor_event(&mut executor, "KILL").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_KILLED").await?;
    drained(p).await?;
    p.note_agent("r0").await?;
    executor.exit(0)?;
    p.await_failure(&mut framework).await?;
    p.agent_is_empty("r0").await?;
    reactivate(p, &agent).await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offer(&mut framework).await?;
    Ok(())
}
