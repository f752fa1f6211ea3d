//! Agents whose process dies and that recover what they ran.

use anyhow::Result;
use serde_json::{Value, json};

use super::drain::checkpointing;
use crate::{
    compare::{Script, scripts},
    executor::Executor,
    framework::{Framework, info, scalar},
    operation::{for_role, operation, refined},
    player::Player,
};

/// Needs one agent that waits a while for its executors.
pub const RECOVERY: &[Script] = scripts![
    a_task_goes_on_and_can_be_killed,
    an_update_that_nobody_saw_comes_after_the_restart,
    what_an_executor_has_not_got_across_it_says_again,
    an_executor_that_does_not_come_back_loses_its_task,
    a_kill_while_the_agent_is_away_is_repeated,
    a_teardown_while_the_agent_is_away_is_repeated,
    a_framework_without_checkpoints_loses_its_tasks_at_once,
    an_executor_that_ends_meanwhile_fails_its_task,
    tasks_are_counted_once,
];

/// Needs one agent, whose resources change, with these flags.
pub const RECONFIGURATION: &[Script] =
    scripts![an_agent_without_room_for_its_reservations_does_not_begin, an_agent_may_grow];

/// Of an agent whose resources change. An attribute that is there twice would be told from itself.
pub const PLAIN: &str = "attributes=rack:r{n};span:[1-17]";

async fn running(p: &mut Player) -> Result<(Framework, Value, Executor)> {
    p.agent("r0").await?;
    let mut framework = checkpointing(p).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.settled(&framework, &mut executor).await?;
    Ok((framework, offer, executor))
}

async fn dies(p: &mut Player) -> Result<()> {
    p.kill("agent-0").await?;
    p.agent_is("r0", false).await
}

// M248, M264, M246
async fn a_task_goes_on_and_can_be_killed(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p).await?;
    dies(p).await?;
    p.note_agent("r0").await?;
    p.metrics(&["master/slaves_connected", "master/slaves_disconnected", "master/slaves_inactive"]).await?;
    p.start("agent-0").await?;
    p.executor_returns(&mut executor, &[]).await?;
    p.agent_is("r0", true).await?;
    p.note_agent("r0").await?;
    let shown = p.framework_state(&framework).await?;
    p.note("tasks", &shown["tasks"]);
    p.call(&framework, "KILL", json!({ "kill": { "task_id": { "value": "t" } } })).await?;
    p.executor_event(&mut executor, "KILL").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_KILLED").await
}

// M259
async fn an_update_that_nobody_saw_comes_after_the_restart(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    p.expect(&mut framework, "UPDATE").await?;
    dies(p).await?;
    p.start("agent-0").await?;
    p.executor_returns(&mut executor, &[]).await?;
    p.acknowledged(&mut framework).await?;
    Ok(())
}

// M260
async fn what_an_executor_has_not_got_across_it_says_again(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p).await?;
    dies(p).await?;
    p.start("agent-0").await?;
    let status = executor.next_status("t", "TASK_FINISHED");
    p.executor_returns(&mut executor, &[json!({ "status": status })]).await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    p.acknowledged(&mut framework).await?;
    Ok(())
}

// M261
async fn an_executor_that_does_not_come_back_loses_its_task(p: &mut Player) -> Result<()> {
    let (mut framework, _, _executor) = running(p).await?;
    dies(p).await?;
    p.start("agent-0").await?;
    let status = p.acknowledged_quietly(&mut framework).await?;
    p.note_fields("lost", &status, &["task_id", "state", "reason", "source"]);
    p.agent_is_empty("r0").await?;
    let nothing = |shown: &Value| shown["slaves"][0]["used_resources"]["cpus"].as_f64() == Some(0.0);
    p.until("/slaves", nothing).await?;
    Ok(())
}

// M253
async fn a_kill_while_the_agent_is_away_is_repeated(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p).await?;
    dies(p).await?;
    p.call(&framework, "KILL", json!({ "kill": { "task_id": { "value": "t" } } })).await?;
    p.start("agent-0").await?;
    p.executor_returns(&mut executor, &[]).await?;
    p.executor_event(&mut executor, "KILL").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_KILLED").await
}

// M254
async fn a_teardown_while_the_agent_is_away_is_repeated(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p).await?;
    dies(p).await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.closed(&mut framework).await?;
    p.start("agent-0").await?;
    p.executor_returns(&mut executor, &[]).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    executor.exit(0)?;
    p.agent_is_empty("r0").await?;
    let shown = p.framework_state(&framework).await?;
    p.note("completed", &shown["completed_tasks"]);
    Ok(())
}

// M262
async fn an_executor_that_ends_meanwhile_fails_its_task(p: &mut Player) -> Result<()> {
    let (mut framework, _, executor) = running(p).await?;
    dies(p).await?;
    let there = executor.process()?;
    executor.exit(0)?;
    p.process_ends(there).await?;
    p.start("agent-0").await?;
    let status = p.acknowledged_quietly(&mut framework).await?;
    p.note_fields("failed", &status, &["task_id", "state", "reason", "source", "message"]);
    p.agent_is_empty("r0").await
}

async fn note_counts(p: &mut Player) -> Result<()> {
    for state in ["staging", "starting", "running", "killing", "finished", "failed", "killed", "lost"] {
        p.metrics(&[&format!("master/tasks_{state}")]).await?;
    }
    Ok(())
}

// M213 in part
async fn tasks_are_counted_once(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = running(p).await?;
    note_counts(p).await?;
    dies(p).await?;
    p.start("agent-0").await?;
    p.executor_returns(&mut executor, &[]).await?;
    p.agent_is("r0", true).await?;
    note_counts(p).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    p.settled(&framework, &mut executor).await?;
    note_counts(p).await
}

const GROWN: [&str; 3] = [
    "reconfiguration_policy=additive",
    "resources=cpus:6;mem:8192;disk:4096;ports:[31000-31999]",
    "attributes=rack:r0;span:[1-20];new:yes",
];

// M267
async fn an_agent_without_room_for_its_reservations_does_not_begin(p: &mut Player) -> Result<()> {
    p.agent("r0").await?;
    let mut framework = p.framework(refined(&["a"])).await?;
    // When its end is told, the agent has written it down.
    p.operate_next(&mut framework, operation("RESERVE", &[for_role(scalar("cpus", 3.0), "a")])).await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.closed(&mut framework).await?;
    dies(p).await?;
    let less = ["reconfiguration_policy=additive", "resources=cpus:2;mem:4096;disk:4096;ports:[31000-31999]"];
    p.starts_in_vain("agent-0", &less).await?;
    let as_it_was = ["reconfiguration_policy=equal", "resources=cpus:4;mem:4096;disk:4096;ports:[31000-31999]"];
    p.start_with("agent-0", &as_it_was).await?;
    p.agent_is("r0", true).await?;
    let mut framework = p.framework(refined(&["a"])).await?;
    p.offer(&mut framework).await?;
    super::operations::unreserve_all(p).await
}

// M252
async fn an_agent_may_grow(p: &mut Player) -> Result<()> {
    let agent = p.agent("r0").await?;
    let mut framework = checkpointing(p).await?;
    p.offers_quietly(&mut framework, 1).await?;
    dies(p).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.starts_in_vain("agent-0", &GROWN[1..]).await?;
    p.start_with("agent-0", &GROWN).await?;
    p.offer(&mut framework).await?;
    let shown = p.state("/slaves").await?;
    p.note("same id", &(shown["slaves"][0]["id"] == agent["value"]).into());
    p.note_fields("/slaves", &shown["slaves"][0], &["resources", "attributes", "unreserved_resources"]);
    p.kill("master").await?;
    p.start("master").await?;
    p.agent_is("r0", true).await?;
    let shown = p.state("/slaves").await?;
    p.note_fields("/slaves", &shown["slaves"][0], &["resources", "attributes"]);
    Ok(())
}

// M250
async fn a_framework_without_checkpoints_loses_its_tasks_at_once(p: &mut Player) -> Result<()> {
    p.agent("r0").await?;
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.settled(&framework, &mut executor).await?;
    dies(p).await?;
    p.expect(&mut framework, "UPDATE").await?;
    let shown = p.framework_state(&framework).await?;
    p.note_fields("framework", &shown, &["tasks", "completed_tasks", "executors"]);
    p.start("agent-0").await?;
    p.agent_is("r0", true).await
}
