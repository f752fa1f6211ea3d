//! A framework that subscribes again, leaves, or comes back too late.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, accept, again, decline, info, old_info, with},
    player::Player,
};

/// Needs one agent.
pub const FAILOVER: &[Script] = scripts![
    the_old_instance_is_told_and_cut_off,
    a_framework_that_came_too_late_is_refused,
    a_framework_that_was_removed_is_refused,
    the_principal_stays,
    new_information_wins,
    offers_are_made_anew,
    a_teardown_shuts_its_executors_down,
    messages_follow_the_framework,
    a_stale_instance_kills_nothing,
    a_disconnected_framework_may_not_call,
    roles_may_change,
    a_running_task_survives_the_change_of_roles,
    the_rest_of_the_agent_is_offered_to_the_new_instance,
    suppression_ends_with_a_new_subscription,
    the_newest_suppression_counts,
];

/// Needs one agent, and the 10 seconds after which it tries again.
pub const RETRIES: &[Script] = scripts![an_update_that_was_not_acknowledged_comes_again];

// M029, M205, M211
async fn an_update_that_was_not_acknowledged_comes_again(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut executor = p.running(&mut first, &offer, "t").await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.expect(&mut first, "UPDATE").await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.acknowledged(&mut second).await?;
    Ok(())
}

// M017
async fn the_old_instance_is_told_and_cut_off(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.note("same id", &(first.id == second.id).into());
    p.closed(&mut first).await
}

// M019
async fn a_framework_that_came_too_late_is_refused(p: &mut Player) -> Result<()> {
    let information = with(info(&["*"]), "failover_timeout", 0.1.into());
    let first = p.framework(information.clone()).await?;
    let id = json!({ "value": first.id });
    let gone = first.id.clone();
    drop(first);
    p.until("/state", |state| ids(&state["completed_frameworks"]).any(|id| id == gone)).await?;
    let mut late = p.subscribe(json!({ "framework_info": with(information, "id", id) })).await?;
    p.closed(&mut late).await
}

// M020
async fn a_framework_that_was_removed_is_refused(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    p.call(&first, "TEARDOWN", json!({})).await?;
    p.closed(&mut first).await?;
    let mut second = p.subscribe(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.closed(&mut second).await?;
    p.call(&first, "REVIVE", json!({})).await?;
    Ok(())
}

// M021
async fn the_principal_stays(p: &mut Player) -> Result<()> {
    let mut first = p.framework(with(info(&["*"]), "principal", "one".into())).await?;
    let other = again(with(info(&["*"]), "principal", "two".into()), &first);
    let mut second = p.subscribe(json!({ "framework_info": other })).await?;
    p.closed(&mut second).await?;
    let none = again(info(&["*"]), &first);
    let mut third = p.subscribe(json!({ "framework_info": none })).await?;
    p.closed(&mut third).await?;
    p.call(&first, "REVIVE", json!({})).await?;
    p.offer(&mut first).await?;
    Ok(())
}

/// Every field that may change, changed.
fn changed(information: Value) -> Value {
    let more = json!({
        "name": "renamed", "webui_url": "http://here", "failover_timeout": 7200.5, "hostname": "elsewhere",
        "labels": { "labels": [{ "key": "b", "value": "2" }] },
        "capabilities": [{ "type": "MULTI_ROLE" }, { "type": "TASK_KILLING_STATE" }],
    });
    let mut information = information;
    for (field, value) in more.as_object().into_iter().flatten() {
        information[field] = value.clone();
    }
    information
}

// M022
async fn new_information_wins(p: &mut Player) -> Result<()> {
    let labels = json!({ "labels": [{ "key": "a", "value": "1" }] });
    let first = p.framework(with(info(&["*"]), "labels", labels)).await?;
    let information = with(again(changed(info(&["*"])), &first), "checkpoint", true.into());
    let second = p.subscribed(json!({ "framework_info": with(information, "user", "nobody".into()) })).await?;
    note_information(p, &second).await
}

/// What the endpoints show of a framework.
async fn note_information(p: &mut Player, framework: &Framework) -> Result<()> {
    let shown = p.framework_state(framework).await?;
    for field in [
        "name",
        "user",
        "role",
        "roles",
        "failover_timeout",
        "checkpoint",
        "hostname",
        "webui_url",
        "labels",
        "capabilities",
        "active",
        "connected",
        "recovered",
        "principal",
    ] {
        p.note(field, &shown[field]);
    }
    let frameworks = p.ask(json!({ "type": "GET_FRAMEWORKS" })).await?;
    p.note("GET_FRAMEWORKS", &frameworks["get_frameworks"]["frameworks"][0]["framework_info"]);
    Ok(())
}

// M024
async fn offers_are_made_anew(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let old = p.offer(&mut first).await?;
    let before = p.framework_state(&first).await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    let new = p.offer(&mut second).await?;
    p.note("a new offer", &(old["id"] != new["id"]).into());
    let after = p.framework_state(&second).await?;
    p.note("registered at the same time", &(before["registered_time"] == after["registered_time"]).into());
    let later = after["reregistered_time"].as_f64() > after["registered_time"].as_f64();
    p.note("registered again later", &later.into());
    p.note("recovered", &after["recovered"]);
    p.note("offers", &after["offers"].as_array().map(Vec::len).into());
    // The old offer is worth nothing.
    p.call(&second, "ACCEPT", accept(std::slice::from_ref(&old), &[])).await?;
    let task = p.task(&old, "late", "late");
    p.call(&second, "ACCEPT", accept(&[old], &[crate::framework::launch(&[task])])).await?;
    p.expect(&mut second, "UPDATE").await?;
    Ok(())
}

// M028
async fn a_teardown_shuts_its_executors_down(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    p.closed(&mut framework).await?;
    let shown = p.framework_state(&framework).await?;
    p.note("completed tasks", &states(&shown["completed_tasks"]));
    Ok(())
}

// M030
async fn messages_follow_the_framework(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut executor = p.running(&mut first, &offer, "t").await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.executor_call(&executor, "MESSAGE", json!({ "message": { "data": "dXA=" } })).await?;
    p.expect(&mut second, "MESSAGE").await?;
    let message = json!({ "agent_id": offer["agent_id"], "executor_id": { "value": "t" }, "data": "ZG93bg==" });
    p.call(&second, "MESSAGE", json!({ "message": message })).await?;
    p.executor_event(&mut executor, "MESSAGE").await?;
    Ok(())
}

// M031
async fn a_stale_instance_kills_nothing(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut executor = p.running(&mut first, &offer, "t").await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.call(&first, "KILL", json!({ "kill": { "task_id": { "value": "t" } } })).await?;
    p.passes_on(&mut executor, &mut second, "t", "TASK_FINISHED").await
}

// M032
async fn a_disconnected_framework_may_not_call(p: &mut Player) -> Result<()> {
    let framework = p.framework(info(&["*"])).await?;
    let Framework { id, stream_id, stream } = framework;
    drop(stream);
    let inactive =
        |state: &Value| state["frameworks"].as_array().into_iter().flatten().any(|f| f["connected"] == false);
    p.until("/state", inactive).await?;
    let again_stream = p.framework(info(&["other"])).await?.stream;
    let framework = Framework { id, stream_id, stream: again_stream };
    for kind in ["REVIVE", "SUPPRESS", "TEARDOWN"] {
        p.call(&framework, kind, json!({})).await?;
    }
    let shown = p.framework_state(&framework).await?;
    p.note("active", &shown["active"]);
    Ok(())
}

// M035, M036, M037
async fn roles_may_change(p: &mut Player) -> Result<()> {
    for (before, after) in [
        (old_info(Some("r")), info(&["r"])),
        (old_info(None), info(&["*"])),
        (info(&["a", "b"]), old_info(Some("a"))),
        (info(&["a", "b"]), info(&["b", "c"])),
        (info(&["a"]), info(&[])),
    ] {
        let first = p.framework(before).await?;
        let mut second = p.subscribed(json!({ "framework_info": again(after, &first) })).await?;
        let shown = p.framework_state(&second).await?;
        p.note("role", &shown["role"]);
        p.note("roles", &shown["roles"]);
        p.call(&second, "TEARDOWN", json!({})).await?;
        p.closed(&mut second).await?;
    }
    Ok(())
}

// M039
async fn a_running_task_survives_the_change_of_roles(p: &mut Player) -> Result<()> {
    let mut first = p.framework(old_info(Some("r"))).await?;
    let offer = p.offer(&mut first).await?;
    let mut executor = p.running(&mut first, &offer, "t").await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["r"]), &first) })).await?;
    let shown = p.framework_state(&second).await?;
    p.note("tasks", &states(&shown["tasks"]));
    p.note("role", &shown["role"]);
    p.note("roles", &shown["roles"]);
    p.passes_on(&mut executor, &mut second, "t", "TASK_FINISHED").await
}

// M054
async fn the_rest_of_the_agent_is_offered_to_the_new_instance(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    p.running(&mut first, &offer, "t").await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    // The filter outlives the instance that set it.
    p.quiet(&mut second).await?;
    p.call(&second, "REVIVE", json!({})).await?;
    p.offer(&mut second).await?;
    Ok(())
}

// M069
async fn suppression_ends_with_a_new_subscription(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    p.call(&first, "SUPPRESS", json!({})).await?;
    p.call(&first, "DECLINE", decline(&[offer], 0.0)).await?;
    p.quiet(&mut first).await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.offer(&mut second).await?;
    Ok(())
}

// M067
async fn the_newest_suppression_counts(p: &mut Player) -> Result<()> {
    let first = p.framework(info(&["a", "b"])).await?;
    let subscribe = json!({ "framework_info": again(info(&["a", "b"]), &first), "suppressed_roles": ["a", "b"] });
    let mut second = p.subscribed(subscribe).await?;
    p.quiet(&mut second).await?;
    p.call(&second, "REVIVE", json!({ "revive": { "roles": ["b"] } })).await?;
    p.offer(&mut second).await?;
    Ok(())
}

/// Ids and states of tasks as `/state` shows them.
pub fn states(tasks: &Value) -> Value {
    let tasks = tasks.as_array().into_iter().flatten();
    let mut states: Vec<String> = tasks.map(|task| format!("{} {}", task["id"], task["state"])).collect();
    states.sort();
    states.into()
}

fn ids(frameworks: &Value) -> impl Iterator<Item = &str> {
    frameworks.as_array().into_iter().flatten().filter_map(|framework| framework["id"].as_str())
}
