//! ACCEPT: operations, their validation, and the life of tasks.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{accept, again, info, launch, old_info, scalar, with},
    player::Player,
};

/// Needs one agent.
pub const ACCEPT: &[Script] = scripts![
    offers_that_are_no_longer_valid_drop_the_tasks,
    one_offer_named_twice_is_refused,
    bad_tasks_are_refused,
    a_second_task_of_the_same_id_is_refused,
    an_executor_must_stay_as_it_was,
    killing_an_unknown_task_tells_its_state,
    a_kill_reaches_the_executor,
    reconciliation_tells_states,
    an_executor_that_exits_fails_its_tasks,
    a_shutdown_reaches_the_executor,
];

/// Needs two agents.
pub const ACCEPT_OF_TWO_AGENTS: &[Script] = scripts![offers_of_two_agents_are_refused];

// M127, M125 for frameworks of both kinds
async fn offers_that_are_no_longer_valid_drop_the_tasks(p: &mut Player) -> Result<()> {
    for information in [info(&["*"]), old_info(None)] {
        let mut framework = p.framework(information).await?;
        let offer = p.offer(&mut framework).await?;
        let task = p.task(&offer, "t", "e");
        let gone = with(offer.clone(), "id", json!({ "value": "gone" }));
        p.call(&framework, "ACCEPT", accept(&[gone], &[launch(&[task])])).await?;
        p.expect(&mut framework, "UPDATE").await?;
        p.call(&framework, "TEARDOWN", json!({})).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

// M125
async fn one_offer_named_twice_is_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    p.call(&framework, "ACCEPT", accept(&[offer.clone(), offer], &[launch(&[task])])).await?;
    p.expect(&mut framework, "UPDATE").await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M124
async fn offers_of_two_agents_are_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offers = p.offers(&mut framework, 2).await?;
    let task = p.task(&offers[0], "t", "e");
    p.call(&framework, "ACCEPT", accept(&offers, &[launch(&[task])])).await?;
    p.expect(&mut framework, "UPDATE").await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offers(&mut framework, 2).await?;
    Ok(())
}

/// Tasks that are wrong in one way each.
fn bad_tasks(task: &Value) -> Vec<(&'static str, Value)> {
    let executor =
        |field: &str, value: Value| with(task.clone(), "executor", with(task["executor"].clone(), field, value));
    let mut both = task.clone();
    both["command"] = json!({ "value": "true" });
    let mut neither = task.clone();
    neither.as_object_mut().map(|fields| fields.remove("executor"));
    let negative = json!({ "nanoseconds": -1 });
    let nameless = json!({ "value": "true", "environment": { "variables": [{ "name": "ENV_VAR_KEY" }] } });
    vec![
        ("M129", executor("framework_id", json!({ "value": "other" }))),
        ("M132", both),
        ("neither", neither),
        ("M133", executor("command", Value::Null)),
        ("M134", executor("type", json!("DEFAULT"))),
        ("M135", with(task.clone(), "resources", json!([]))),
        ("M136", with(task.clone(), "resources", json!([scalar("cpus", 4.5), scalar("mem", 32.0)]))),
        ("M141", executor("shutdown_grace_period", negative.clone())),
        ("M142", with(task.clone(), "kill_policy", json!({ "grace_period": negative }))),
        ("M144", executor("command", nameless)),
        ("M145", with(task.clone(), "container", json!({ "type": "DOCKER" }))),
        ("M150 slash", executor("executor_id", json!({ "value": "ab/c" }))),
        ("M150 dot", executor("executor_id", json!({ "value": "." }))),
        ("empty id", with(task.clone(), "task_id", json!({ "value": "" }))),
        ("slash in id", with(task.clone(), "task_id", json!({ "value": "a/b" }))),
        ("other agent", with(task.clone(), "agent_id", json!({ "value": "other" }))),
    ]
}

// M129, M132 to M136, M141, M142, M144, M145, M150
async fn bad_tasks_are_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let mut offer = p.offer(&mut framework).await?;
    for (what, task) in bad_tasks(&p.task(&offer, "t", "e")) {
        p.note("task", &what.into());
        p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
        p.expect(&mut framework, "UPDATE").await?;
        p.call(&framework, "REVIVE", json!({})).await?;
        offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    }
    Ok(())
}

// M137
async fn a_second_task_of_the_same_id_is_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task.clone(), task])])).await?;
    p.expect(&mut framework, "UPDATE").await?;
    let mut executor = p.executor(&framework, "e").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    Ok(())
}

// M139
async fn an_executor_must_stay_as_it_was(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.running(&mut framework, &offer, "t").await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    p.note("executors", &offer["executor_ids"]);
    let task = p.task(&offer, "second", "t");
    let other = with(task["executor"].clone(), "name", "another".into());
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[with(task, "executor", other)])])).await?;
    let event = p.expect(&mut framework, "UPDATE").await?;
    anyhow::ensure!(event["update"]["status"]["state"] == "TASK_ERROR", "refused");
    Ok(())
}

// M183
async fn killing_an_unknown_task_tells_its_state(p: &mut Player) -> Result<()> {
    for information in [info(&["*"]), old_info(None)] {
        let mut framework = p.framework(information).await?;
        let offer = p.offer(&mut framework).await?;
        for agent in [Value::Null, offer["agent_id"].clone(), json!({ "value": "nowhere" })] {
            let kill = json!({ "task_id": { "value": "unknown" }, "agent_id": agent });
            p.call(&framework, "KILL", json!({ "kill": kill })).await?;
            p.expect(&mut framework, "UPDATE").await?;
        }
        p.call(&framework, "TEARDOWN", json!({})).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

// M130, M178, M182
async fn a_kill_reaches_the_executor(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    let kill = json!({ "task_id": { "value": "t" }, "kill_policy": { "grace_period": { "nanoseconds": 5 } } });
    p.call(&framework, "KILL", json!({ "kill": kill })).await?;
    p.executor_event(&mut executor, "KILL").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_KILLED").await
}

// M220 to M222, M226, M227
async fn reconciliation_tells_states(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    p.running(&mut first, &offer, "t").await?;
    let mut framework = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.call(&framework, "RECONCILE", json!({ "reconcile": { "tasks": [] } })).await?;
    p.expect(&mut framework, "UPDATE").await?;
    for task in ["t", "unknown"] {
        for agent in [Value::Null, offer["agent_id"].clone(), json!({ "value": "nowhere" })] {
            let asked = json!({ "task_id": { "value": task }, "agent_id": agent });
            p.call(&framework, "RECONCILE", json!({ "reconcile": { "tasks": [asked] } })).await?;
            p.expect(&mut framework, "UPDATE").await?;
        }
    }
    Ok(())
}

async fn an_executor_that_exits_fails_its_tasks(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let executor = p.running(&mut framework, &offer, "t").await?;
    executor.exit(3)?;
    // FAILURE comes before it.
    p.acknowledged(&mut framework).await?;
    Ok(())
}

async fn a_shutdown_reaches_the_executor(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    let shutdown = json!({ "executor_id": { "value": "t" }, "agent_id": offer["agent_id"] });
    p.call(&framework, "SHUTDOWN", json!({ "shutdown": shutdown })).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    Ok(())
}
