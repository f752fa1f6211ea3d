//! Agents whose process dies and that recover what they ran.

use anyhow::Result;
use serde_json::{Value, json};

use super::drain::checkpointing;
use crate::{
    compare::{Script, scripts},
    executor::Executor,
    framework::{Framework, info},
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
];

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
