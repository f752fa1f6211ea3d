//! Agents that do not answer, and agents that are given up for ever.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::drain::{checkpointing, drain};
use crate::{
    compare::{Script, scripts},
    executor::Executor,
    framework::{Framework, accept, info, launch, old_info, scalar, with},
    operation::{for_role, identified, operation, refined},
    player::Player,
};

/// Needs two agents that are missed soon.
pub const LOST: &[Script] = scripts![
    an_agent_that_does_not_answer_is_unreachable,
    frameworks_that_know_nothing_of_partitions_lose_the_task,
    a_framework_that_ends_meanwhile_is_ended_on_the_agent,
];

/// Needs two such agents that were never unreachable; each runs something when it is lost for the first time only.
pub const UNSEEN: &[Script] = scripts![
    a_task_that_ends_unseen_is_lost_until_then,
    a_task_that_ends_unseen_is_told_twice,
    a_new_master_knows_since_when_an_agent_is_unreachable,
    only_some_unreachable_agents_are_remembered,
];

/// Needs two agents that were never unreachable: the master of Apache Mesos aborts when one that was is removed.
pub const GONE: &[Script] = scripts![
    an_agent_given_up_is_gone,
    a_drained_agent_may_be_gone_for_ever,
    operations_of_an_agent_given_up_are_gone,
];

/// Of the master that these scripts need.
pub const FLAGS: [&str; 4] = [
    "agent_ping_timeout=1secs",
    "max_agent_ping_timeouts=3",
    "registry_gc_interval=1secs",
    "registry_max_agent_count=1",
];

/// A task on the first agent, and an offer of the second.
async fn running(p: &mut Player, information: Value, rack: &str) -> Result<(Framework, Value, Executor)> {
    let agent = p.agent(rack).await?;
    let mut framework = p.framework(information).await?;
    let offers = p.offers_quietly(&mut framework, 2).await?;
    let (here, there): (Vec<Value>, Vec<Value>) = offers.into_iter().partition(|offer| offer["agent_id"] == agent);
    let mut executor = p.running(&mut framework, here.first().context("an offer of the agent")?, "t").await?;
    p.settled_on(&framework, &mut executor, &agent).await?;
    Ok((framework, there.into_iter().next().context("an offer of the other")?, executor))
}

async fn note_lost(p: &mut Player, framework: &Framework) -> Result<()> {
    let state = p.state("/state").await?;
    p.note_fields("/state", &state, &["unreachable_slaves", "activated_slaves", "deactivated_slaves"]);
    let shown = p.framework_state(framework).await?;
    for list in ["tasks", "unreachable_tasks", "completed_tasks"] {
        let states: Vec<&Value> = shown[list].as_array().into_iter().flatten().map(|task| &task["state"]).collect();
        p.note(list, &json!(states));
    }
    let all = p.ask(json!({ "type": "GET_TASKS" })).await?;
    for list in ["tasks", "unreachable_tasks", "completed_tasks"] {
        let tasks = all["get_tasks"][list].as_array().cloned().unwrap_or_default();
        let own = tasks.iter().filter(|task| task["framework_id"]["value"] == framework.id);
        let states: Vec<&Value> = own.map(|task| &task["state"]).collect();
        p.note(&format!("GET_TASKS {list}"), &json!(states));
    }
    let names = [
        "tasks_unreachable",
        "tasks_lost",
        "tasks_running",
        "tasks_killed",
        "slave_unreachable_scheduled",
        "slave_unreachable_completed",
        "slave_removals/reason_unhealthy",
        "slaves_unreachable",
    ];
    for name in names {
        p.metrics(&[&format!("master/{name}")]).await?;
    }
    Ok(())
}

async fn reconcile(p: &mut Player, framework: &mut Framework, agent: &Value) -> Result<()> {
    let asked = json!({ "task_id": { "value": "t" }, "agent_id": agent });
    p.call(framework, "RECONCILE", json!({ "reconcile": { "tasks": [asked] } })).await?;
    loop {
        let event = framework.stream.news().await.context("awaiting the answer")?;
        // An update may have been repeated before it was acknowledged.
        if event["update"]["status"]["reason"] == "REASON_RECONCILIATION" {
            p.note("event", &event);
            return Ok(());
        }
    }
}

// M138, M238, M239
async fn an_agent_that_does_not_answer_is_unreachable(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let (mut framework, other, mut executor) = running(p, with(info(&["*"]), "checkpoint", true.into()), "r0").await?;
    p.freeze("agent-0").await?;
    p.expect(&mut framework, "FAILURE").await?;
    note_lost(p, &framework).await?;
    reconcile(p, &mut framework, &agent).await?;
    let again = p.task(&other, "t", "t");
    p.call(&framework, "ACCEPT", accept(&[other], &[launch(&[again])])).await?;
    p.expect(&mut framework, "UPDATE").await?;
    p.thaw("agent-0").await?;
    p.expect(&mut framework, "UPDATE").await?;
    note_lost(p, &framework).await?;
    p.settled_on(&framework, &mut executor, &agent).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await
}

// M240
async fn frameworks_that_know_nothing_of_partitions_lose_the_task(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let (mut framework, _, mut executor) = running(p, with(old_info(None), "checkpoint", true.into()), "r0").await?;
    p.freeze("agent-0").await?;
    p.expect(&mut framework, "FAILURE").await?;
    note_lost(p, &framework).await?;
    reconcile(p, &mut framework, &agent).await?;
    p.thaw("agent-0").await?;
    p.expect(&mut framework, "UPDATE").await?;
    note_lost(p, &framework).await?;
    p.settled_on(&framework, &mut executor, &agent).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await
}

// M241
async fn a_framework_that_ends_meanwhile_is_ended_on_the_agent(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p, with(info(&["*"]), "checkpoint", true.into()), "r0").await?;
    p.freeze("agent-0").await?;
    p.expect(&mut framework, "FAILURE").await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.closed(&mut framework).await?;
    note_lost(p, &framework).await?;
    p.thaw("agent-0").await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    executor.exit(0)?;
    p.agent("r0").await?;
    Ok(())
}

/// The agent dies and is unreachable. Then it is back, and its executor says that the task has ended before the agent
/// registers: it waits for its executors first.
async fn ends_unseen(p: &mut Player, part: &str, framework: &mut Framework, executor: &mut Executor) -> Result<()> {
    p.kill(part).await?;
    p.expect(framework, "FAILURE").await?;
    p.start(part).await?;
    let status = executor.next_status("t", "TASK_FINISHED");
    p.executor_returns(executor, &[json!({ "status": status })]).await?;
    p.executor_event(executor, "ACKNOWLEDGED").await?;
    Ok(())
}

// M242
async fn a_task_that_ends_unseen_is_lost_until_then(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let (mut framework, _, mut executor) = running(p, with(old_info(None), "checkpoint", true.into()), "r0").await?;
    ends_unseen(p, "agent-0", &mut framework, &mut executor).await?;
    let status = p.acknowledged_quietly(&mut framework).await?;
    p.note("told", &json!([status["state"], status["source"], status["reason"]]));
    if status["uuid"].is_null() {
        let status = p.acknowledged_quietly(&mut framework).await?;
        p.note("told", &json!([status["state"], status["source"], status["reason"]]));
    }
    p.settled_on(&framework, &mut executor, &agent).await?;
    note_lost(p, &framework).await?;
    reconcile(p, &mut framework, &agent).await
}

// M243
async fn a_task_that_ends_unseen_is_told_twice(p: &mut Player) -> Result<()> {
    let agent = p.agent("r1").await?;
    let (mut framework, _, mut executor) = running(p, with(info(&["*"]), "checkpoint", true.into()), "r1").await?;
    ends_unseen(p, "agent-1", &mut framework, &mut executor).await?;
    for _ in 0..2 {
        let status = p.acknowledged_quietly(&mut framework).await?;
        p.note("told", &json!([status["state"], status["source"], status["reason"]]));
    }
    p.settled_on(&framework, &mut executor, &agent).await?;
    note_lost(p, &framework).await?;
    reconcile(p, &mut framework, &agent).await
}

async fn told_of(p: &mut Player, framework: &mut Framework, agent: &Value) -> Result<Value> {
    let asked = json!({ "task_id": { "value": "t" }, "agent_id": agent });
    p.call(framework, "RECONCILE", json!({ "reconcile": { "tasks": [asked] } })).await?;
    let event = p.expect(framework, "UPDATE").await?;
    Ok(event["update"]["status"]["unreachable_time"].clone())
}

// M229
async fn a_new_master_knows_since_when_an_agent_is_unreachable(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut first = p.framework(info(&["*"])).await?;
    p.freeze("agent-0").await?;
    p.expect(&mut first, "FAILURE").await?;
    let before = told_of(p, &mut first, &agent).await?;
    p.kill("master").await?;
    p.start("master").await?;
    let mut framework = p.framework(crate::framework::again(info(&["*"]), &first)).await?;
    let after = told_of(p, &mut framework, &agent).await?;
    p.note("the same time", &(before == after && before.is_object()).into());
    p.thaw("agent-0").await?;
    for rack in ["r0", "r1"] {
        p.agent(rack).await?;
        p.agent_is(rack, true).await?;
    }
    Ok(())
}

// M230
async fn only_some_unreachable_agents_are_remembered(p: &mut Player) -> Result<()> {
    let agents = [p.agent("r0").await?, p.agent("r1").await?];
    let mut framework = p.framework(info(&["*"])).await?;
    for part in ["agent-0", "agent-1"] {
        p.freeze(part).await?;
        p.expect(&mut framework, "FAILURE").await?;
    }
    p.until_metric("master/slaves_unreachable", |count| count == 1.0).await?;
    for agent in &agents {
        let since = told_of(p, &mut framework, agent).await?;
        p.note("unreachable", &since.is_object().into());
    }
    for part in ["agent-0", "agent-1"] {
        p.thaw(part).await?;
    }
    for rack in ["r0", "r1"] {
        p.agent(rack).await?;
        p.agent_is(rack, true).await?;
    }
    Ok(())
}

async fn mark_gone(p: &mut Player, agent: &Value) -> Result<()> {
    p.operator(json!({ "type": "MARK_AGENT_GONE", "mark_agent_gone": { "agent_id": agent } })).await?;
    Ok(())
}

/// A new agent in the place of the one that is gone.
async fn replaced(p: &mut Player, part: &str, rack: &str) -> Result<()> {
    p.ended(part).await?;
    let fresh = format!("work_dir={}/fresh-{part}", p.folder.display());
    p.start_with(part, &[&fresh]).await?;
    p.agent(rack).await?;
    Ok(())
}

// M257, M258
async fn an_agent_given_up_is_gone(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let (mut framework, _, mut executor) = running(p, with(info(&["*"]), "checkpoint", true.into()), "r0").await?;
    mark_gone(p, &json!({ "value": "unknown" })).await?;
    mark_gone(p, &agent).await?;
    p.expect(&mut framework, "FAILURE").await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    executor.exit(0)?;
    mark_gone(p, &agent).await?;
    note_lost(p, &framework).await?;
    reconcile(p, &mut framework, &agent).await?;
    p.ended("agent-0").await?;
    // With its old folder it is refused for ever.
    p.start("agent-0").await?;
    replaced(p, "agent-0", "r0").await
}

// M270
async fn a_drained_agent_may_be_gone_for_ever(p: &mut Player) -> Result<()> {
    let agent = p.agent("r1").await?;
    let mut framework = checkpointing(p).await?;
    let offers = p.offers_quietly(&mut framework, 2).await?;
    let offer = offers.iter().find(|offer| offer["agent_id"] == agent).context("an offer of the agent")?;
    let mut executor = p.running(&mut framework, offer, "t").await?;
    drain(p, &agent, json!({ "mark_gone": true })).await?;
    p.executor_event(&mut executor, "KILL").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_KILLED").await?;
    p.expect(&mut framework, "FAILURE").await?;
    replaced(p, "agent-1", "r1").await
}

// M233
async fn operations_of_an_agent_given_up_are_gone(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut framework = p.framework(refined(&["a"])).await?;
    let offers = p.offers_quietly(&mut framework, 2).await?;
    let offer = offers.into_iter().find(|offer| offer["agent_id"] == agent).context("an offer of the agent")?;
    let reserve = identified(operation("RESERVE", &[for_role(scalar("cpus", 1.0), "a")]), "o");
    p.call(&framework, "ACCEPT", accept(&[offer], &[reserve])).await?;
    p.expect(&mut framework, "UPDATE_OPERATION_STATUS").await?;
    p.until_operator("GET_OPERATIONS", |shown| {
        shown["get_operations"]["operations"][0]["latest_status"]["state"] == "OPERATION_FINISHED"
    })
    .await?;
    mark_gone(p, &agent).await?;
    p.expect(&mut framework, "UPDATE_OPERATION_STATUS").await?;
    p.expect(&mut framework, "FAILURE").await?;
    p.call(&framework, "RECONCILE_OPERATIONS", json!({ "reconcile_operations": { "operations": [] } })).await?;
    p.quiet_but_for_offers(&mut framework).await?;
    for id in ["o", "unknown"] {
        let asked = json!({ "operation_id": { "value": id }, "agent_id": agent });
        p.call(&framework, "RECONCILE_OPERATIONS", json!({ "reconcile_operations": { "operations": [asked] } }))
            .await?;
        p.expect(&mut framework, "UPDATE_OPERATION_STATUS").await?;
    }
    let shown = p.ask(json!({ "type": "GET_OPERATIONS" })).await?;
    p.note("GET_OPERATIONS", &shown["get_operations"]);
    replaced(p, "agent-0", "r0").await
}
