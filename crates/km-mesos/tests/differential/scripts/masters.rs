//! A master that is started again, and what it knows of agents and frameworks that are not back yet.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{drain::checkpointing, events, operations::unreserve_all};
use crate::{
    compare::{Script, scripts},
    executor::Executor,
    framework::{Framework, again, info, scalar, with},
    operation::{for_role, operation, refined, volume},
    player::{Player, as_v1},
};

/// Needs one agent.
pub const MASTERS: &[Script] = scripts![
    nothing_is_said_of_an_agent_that_may_come_back,
    what_is_not_back_yet_is_recovered,
    reservations_and_volumes_outlive_both,
];

/// A running task of a framework with checkpoints; then its agent and the master die, and the master is back.
async fn master_without_agent(p: &mut Player) -> Result<(Framework, Executor, Value)> {
    let agent = p.agent("r0").await?;
    let mut framework = checkpointing(p).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.settled(&framework, &mut executor).await?;
    p.kill("agent-0").await?;
    p.kill("master").await?;
    p.start("master").await?;
    Ok((framework, executor, agent))
}

async fn comes_back(p: &mut Player, executor: &mut Executor) -> Result<()> {
    p.start("agent-0").await?;
    p.executor_returns(executor, &[]).await?;
    p.agent_is("r0", true).await
}

async fn resubscribed(p: &mut Player, framework: &Framework) -> Result<Framework> {
    p.framework(again(with(info(&["*"]), "checkpoint", true.into()), framework)).await
}

// M228
async fn nothing_is_said_of_an_agent_that_may_come_back(p: &mut Player) -> Result<()> {
    let (first, mut executor, agent) = master_without_agent(p).await?;
    let mut framework = resubscribed(p, &first).await?;
    let task = json!({ "task_id": { "value": "t" } });
    for asked in [task.clone(), with(task.clone(), "agent_id", agent.clone())] {
        p.call(&framework, "RECONCILE", json!({ "reconcile": { "tasks": [asked] } })).await?;
    }
    let operation = json!({ "operation_id": { "value": "o" }, "agent_id": agent });
    p.call(&framework, "RECONCILE_OPERATIONS", json!({ "reconcile_operations": { "operations": [operation] } }))
        .await?;
    p.expect(&mut framework, "UPDATE_OPERATION_STATUS").await?;
    p.quiet_but_for_offers(&mut framework).await?;
    comes_back(p, &mut executor).await?;
    p.call(&framework, "RECONCILE", json!({ "reconcile": { "tasks": [task] } })).await?;
    p.expect(&mut framework, "UPDATE").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await
}

async fn note_agents(p: &mut Player) -> Result<()> {
    let shown = p.state("/slaves").await?;
    for list in ["slaves", "recovered_slaves"] {
        let hosts: Vec<&Value> = shown[list].as_array().into_iter().flatten().map(|agent| &agent["id"]).collect();
        p.note(list, &json!(hosts));
    }
    let shown = p.ask(json!({ "type": "GET_AGENTS" })).await?;
    let recovered = shown["get_agents"]["recovered_agents"].as_array().cloned().unwrap_or_default();
    for info in recovered {
        p.note_fields("GET_AGENTS recovered", &info, &["id", "hostname", "resources", "attributes"]);
    }
    let known: Vec<&Value> = shown["get_agents"]["agents"].as_array().into_iter().flatten().collect();
    p.note("GET_AGENTS", &known.len().into());
    Ok(())
}

async fn note_framework(p: &mut Player, framework: &Framework) -> Result<()> {
    let state = p.state("/state").await?;
    p.note_fields("/state", &state, &["orphan_tasks", "unregistered_frameworks"]);
    let all = state["frameworks"].as_array().cloned().unwrap_or_default();
    p.note("how many", &all.len().into());
    let shown = all.into_iter().find(|shown| shown["id"] == framework.id).unwrap_or_default();
    p.note_fields("framework", &shown, &["active", "connected", "recovered", "tasks", "executors"]);
    p.note("never registered", &(shown["registered_time"].as_f64() == Some(0.0)).into());
    if shown["recovered"] == true {
        p.note("registered again", &(!shown["reregistered_time"].is_null()).into());
    }
    Ok(())
}

// M244, M249, M251, M306, M309
async fn what_is_not_back_yet_is_recovered(p: &mut Player) -> Result<()> {
    let (first, mut executor, agent) = master_without_agent(p).await?;
    note_agents(p).await?;
    let (mut stream, subscribed) = events::open(p).await?;
    let state = as_v1(subscribed["get_state"].clone());
    p.note("no frameworks", &state["get_frameworks"]["frameworks"]);
    p.note("no agents", &state["get_agents"]["agents"]);
    comes_back(p, &mut executor).await?;
    for kind in ["AGENT_ADDED", "FRAMEWORK_ADDED", "TASK_ADDED"] {
        let event = stream.event().await?;
        p.note("operator event", &event["type"]);
        anyhow::ensure!(event["type"] == kind, "an operator awaits {kind}");
        p.note_fields("framework", &event["framework_added"]["framework"], &["active", "connected", "recovered"]);
        p.note("task", &event["task_added"]["task"]["state"]);
    }
    note_agents(p).await?;
    note_framework(p, &first).await?;
    let mut framework = resubscribed(p, &first).await?;
    note_framework(p, &framework).await?;
    let other = p.framework(info(&["b"])).await?;
    let prefix = |id: &str| id.rsplit_once('-').map(|(prefix, _)| prefix.to_owned());
    let old_agent = agent["value"].as_str().and_then(prefix).context("an id")?;
    p.note("new ids begin otherwise", &(prefix(&other.id) != Some(old_agent)).into());
    drop(std::mem::replace(&mut framework.stream, other.stream));
    p.until("/frameworks", |shown| {
        shown["frameworks"].as_array().into_iter().flatten().any(|one| one["id"] == first.id && one["active"] == false)
    })
    .await?;
    let id = json!({ "value": first.id });
    p.operator(json!({ "type": "TEARDOWN", "teardown": { "framework_id": id } })).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    executor.exit(0)?;
    p.agent_is_empty("r0").await
}

// M266
async fn reservations_and_volumes_outlive_both(p: &mut Player) -> Result<()> {
    let information = with(refined(&["a"]), "checkpoint", true.into());
    let mut framework = p.framework(information.clone()).await?;
    let disk = for_role(scalar("disk", 64.0), "a");
    p.operate_next(&mut framework, operation("RESERVE", &[disk, for_role(scalar("cpus", 1.0), "a")])).await?;
    p.operate_next(&mut framework, operation("CREATE", &[volume("a", "id", 16.0)])).await?;
    p.kill("master").await?;
    p.start("master").await?;
    p.agent_is("r0", true).await?;
    let mut framework = p.framework(again(information, &framework)).await?;
    p.offer(&mut framework).await?;
    p.kill("agent-0").await?;
    p.agent_is("r0", false).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.start("agent-0").await?;
    let offer = p.offer(&mut framework).await?;
    p.operate(&mut framework, &offer, operation("DESTROY", &[volume("a", "id", 16.0)])).await?;
    unreserve_all(p).await
}
