//! The life of a task: its executor, its statuses and their acknowledgements, its end, reconciliation.

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::launch::{group_executor, launch_group};
use crate::{
    compare::{Script, scripts},
    executor::Executor,
    framework::{Framework, accept, info, launch, with},
    player::Player,
};

/// Needs one agent.
pub const TASKS: &[Script] = scripts![
    an_offer_says_where_the_agent_is,
    a_task_killed_before_its_executor_subscribes_is_over,
    killing_one_of_an_undelivered_group_kills_the_group,
    an_executor_that_ends_before_it_subscribes_fails_its_task,
    a_teardown_ends_executors,
    a_shut_down_executor_that_ends_is_told,
    an_executor_that_will_not_end_is_killed,
    messages_pass_unchanged,
    acknowledgements_that_do_not_fit_are_ignored,
    an_update_that_comes_twice_is_told_once,
    a_second_end_before_the_acknowledgement_is_dropped,
    a_second_end_after_the_acknowledgement_changes_nothing,
    resources_come_back_with_the_end_not_with_its_acknowledgement,
    labels_and_discovery_are_shown_as_given,
    what_an_executor_says_of_checks_is_passed_on,
    ended_tasks_are_reconciled_until_acknowledged,
];

/// Needs an agent whose executors must subscribe within a second.
pub const SLOW: &[Script] =
    scripts![an_executor_that_never_subscribes_is_given_up, what_takes_too_long_to_fetch_is_given_up];

async fn one(p: &mut Player) -> Result<(Framework, Value, Executor)> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let executor = p.running(&mut framework, &offer, "t").await?;
    Ok((framework, offer, executor))
}

async fn kill(p: &mut Player, framework: &Framework, task: &str) -> Result<()> {
    p.call(framework, "KILL", json!({ "kill": { "task_id": { "value": task } } })).await?;
    Ok(())
}

async fn acknowledge(p: &mut Player, framework: &Framework, status: &Value, uuid: &Value) -> Result<()> {
    let body = json!({ "agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": uuid });
    p.call(framework, "ACKNOWLEDGE", json!({ "acknowledge": body })).await?;
    Ok(())
}

/// Records what the framework has been told until a message of the executor arrives.
async fn told_so_far(p: &mut Player, framework: &mut Framework, executor: &Executor) -> Result<()> {
    let data = json!({ "data": STANDARD.encode("mark") });
    p.executor_call(executor, "MESSAGE", json!({ "message": data })).await?;
    p.expect(framework, "MESSAGE").await?;
    Ok(())
}

async fn note_tasks(p: &mut Player, framework: &Framework) -> Result<()> {
    let shown = p.framework_state(framework).await?;
    for list in ["tasks", "completed_tasks"] {
        let states: Vec<&Value> = shown[list].as_array().into_iter().flatten().map(|task| &task["state"]).collect();
        p.note(list, &json!(states));
    }
    Ok(())
}

// M179
async fn an_offer_says_where_the_agent_is(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let shown = p.state("/slaves").await?;
    let agent = &shown["slaves"][0];
    p.note("host", &(offer["hostname"] == agent["hostname"]).into());
    let port = &offer["url"]["address"]["port"];
    let pid = agent["pid"].as_str().unwrap_or_default();
    p.note("port", &pid.ends_with(&format!(":{port}")).into());
    Ok(())
}

// M185
async fn a_task_killed_before_its_executor_subscribes_is_over(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    p.executor_begins(&framework, "e").await?;
    kill(p, &framework, "t").await?;
    p.acknowledged(&mut framework).await?;
    p.executor_is_sent_home(&framework, "e").await?;
    p.expect(&mut framework, "FAILURE").await?;
    Ok(())
}

// M186, M187
async fn killing_one_of_an_undelivered_group_kills_the_group(p: &mut Player) -> Result<()> {
    for alone in [true, false] {
        let mut framework = p.framework(info(&["*"])).await?;
        let offer = p.offer(&mut framework).await?;
        let executor = group_executor(p, &framework);
        let single = with(p.task(&offer, "single", "e"), "executor", executor.clone());
        let members = ["t", "u"].map(|name| {
            let mut task = p.task(&offer, name, "e");
            task.as_object_mut().map(|fields| fields.remove("executor"));
            task
        });
        let mut operations = vec![launch_group(&executor, &members)];
        if !alone {
            operations.push(launch(&[single]));
        }
        p.call(&framework, "ACCEPT", accept(&[offer], &operations)).await?;
        p.executor_begins(&framework, "e").await?;
        kill(p, &framework, "t").await?;
        let mut killed =
            vec![p.acknowledged_quietly(&mut framework).await?, p.acknowledged_quietly(&mut framework).await?];
        killed.sort_by_key(|status| status["task_id"].to_string());
        for status in &killed {
            p.note_fields("killed", status, &["task_id", "state", "reason", "source", "message"]);
        }
        if alone {
            p.executor_is_sent_home(&framework, "e").await?;
            p.expect(&mut framework, "FAILURE").await?;
        } else {
            let mut played = p.executor(&framework, "e").await?;
            p.executor_event(&mut played, "LAUNCH").await?;
        }
        p.call(&framework, "TEARDOWN", json!({})).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

// M190
async fn an_executor_that_ends_before_it_subscribes_fails_its_task(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    p.executor_begins(&framework, "e").await?;
    p.executor_exits(&framework, "e", 3)?;
    p.acknowledged(&mut framework).await?;
    Ok(())
}

// M188
async fn an_executor_that_never_subscribes_is_given_up(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    p.acknowledged(&mut framework).await?;
    Ok(())
}

// M201
async fn a_teardown_ends_executors(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = one(p).await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    p.closed(&mut framework).await?;
    let shown = p.framework_state(&framework).await?;
    p.note("completed", &shown["completed_tasks"]);
    p.note_fields("framework", &shown, &["active", "connected", "recovered", "tasks"]);
    Ok(())
}

// M203
async fn a_shut_down_executor_that_ends_is_told(p: &mut Player) -> Result<()> {
    let (mut framework, offer, mut executor) = one(p).await?;
    let shutdown = json!({ "executor_id": { "value": "t" }, "agent_id": offer["agent_id"] });
    p.call(&framework, "SHUTDOWN", json!({ "shutdown": shutdown })).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    executor.exit(0)?;
    p.acknowledged(&mut framework).await?;
    Ok(())
}

// M296
async fn an_executor_that_will_not_end_is_killed(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "t");
    let grace = json!({ "nanoseconds": 100_000_000 });
    let task = with(task.clone(), "executor", with(task["executor"].clone(), "shutdown_grace_period", grace));
    p.call(&framework, "ACCEPT", accept(std::slice::from_ref(&offer), &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.note("grace", &executor.environment.get("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD").cloned().into());
    p.executor_event(&mut executor, "LAUNCH").await?;
    let shutdown = json!({ "executor_id": { "value": "t" }, "agent_id": offer["agent_id"] });
    p.call(&framework, "SHUTDOWN", json!({ "shutdown": shutdown })).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    p.acknowledged(&mut framework).await?;
    Ok(())
}

// M204
async fn messages_pass_unchanged(p: &mut Player) -> Result<()> {
    let (mut framework, offer, mut executor) = one(p).await?;
    let data = STANDARD.encode([0, 1, 127, 128, 255]);
    let message = json!({ "agent_id": offer["agent_id"], "executor_id": { "value": "t" }, "data": data });
    p.call(&framework, "MESSAGE", json!({ "message": message })).await?;
    p.executor_event(&mut executor, "MESSAGE").await?;
    p.executor_call(&executor, "MESSAGE", json!({ "message": { "data": data } })).await?;
    p.expect(&mut framework, "MESSAGE").await?;
    Ok(())
}

// M206
async fn acknowledgements_that_do_not_fit_are_ignored(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "t");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_STARTING").await?;
    p.update(&mut executor, "t", "TASK_RUNNING").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    let running = p.expect(&mut framework, "UPDATE").await?["update"]["status"].clone();
    let another = STANDARD.encode(uuid::Uuid::new_v4().as_bytes());
    let earlier = STANDARD.encode(uuid::Uuid::from_u128(0x4000_8000_0000_0000_0001).as_bytes());
    for uuid in [another, earlier] {
        acknowledge(p, &framework, &running, &uuid.into()).await?;
    }
    p.settled(&framework, &mut executor).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    told_so_far(p, &mut framework, &executor).await?;
    note_tasks(p, &framework).await?;
    acknowledge(p, &framework, &running, &running["uuid"]).await?;
    p.acknowledged(&mut framework).await?;
    note_tasks(p, &framework).await
}

// M209
async fn an_update_that_comes_twice_is_told_once(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = one(p).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    let status = p.expect(&mut framework, "UPDATE").await?["update"]["status"].clone();
    executor.says_again();
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    told_so_far(p, &mut framework, &executor).await?;
    acknowledge(p, &framework, &status, &status["uuid"]).await?;
    note_tasks(p, &framework).await
}

// M208
async fn a_second_end_before_the_acknowledgement_is_dropped(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = one(p).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    let status = p.expect(&mut framework, "UPDATE").await?["update"]["status"].clone();
    p.update(&mut executor, "t", "TASK_KILLED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    told_so_far(p, &mut framework, &executor).await?;
    acknowledge(p, &framework, &status, &status["uuid"]).await?;
    p.settled(&framework, &mut executor).await?;
    told_so_far(p, &mut framework, &executor).await?;
    note_tasks(p, &framework).await
}

// M207
async fn a_second_end_after_the_acknowledgement_changes_nothing(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = one(p).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    p.settled(&framework, &mut executor).await?;
    // Apache Mesos does not confirm that to the executor.
    p.update(&mut executor, "t", "TASK_KILLED").await?;
    p.acknowledged(&mut framework).await?;
    note_tasks(p, &framework).await
}

// M210
async fn resources_come_back_with_the_end_not_with_its_acknowledgement(p: &mut Player) -> Result<()> {
    let (mut framework, _, mut executor) = one(p).await?;
    p.call(&framework, "SUPPRESS", json!({})).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.expect(&mut framework, "UPDATE").await?;
    let mut second = p.framework(info(&["*"])).await?;
    p.offer(&mut second).await?;
    note_tasks(p, &framework).await
}

// M214, M215
async fn labels_and_discovery_are_shown_as_given(p: &mut Player) -> Result<()> {
    let labels = json!({ "labels": [{ "key": "b", "value": "1" }, { "key": "a" }, { "key": "b", "value": "2" }] });
    let mut framework = p.framework(with(info(&["*"]), "labels", labels.clone())).await?;
    let offer = p.offer(&mut framework).await?;
    let discovery = json!({
        "visibility": "CLUSTER", "name": "n", "environment": "e", "location": "l", "version": "v", "labels": labels,
        "ports": { "ports": [{ "number": 80, "name": "web", "protocol": "tcp", "labels": labels }] },
    });
    let task = with(with(p.task(&offer, "t", "t"), "labels", labels.clone()), "discovery", discovery);
    let task = with(task.clone(), "executor", with(task["executor"].clone(), "labels", labels.clone()));
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_RUNNING").await?;
    let shown = p.framework_state(&framework).await?;
    p.note_fields("framework", &shown, &["labels", "tasks", "executors"]);
    Ok(())
}

// M216, M217
async fn what_an_executor_says_of_checks_is_passed_on(p: &mut Player) -> Result<()> {
    let (mut framework, offer, mut executor) = one(p).await?;
    let more = json!({
        "healthy": true, "reason": "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED",
        "check_status": { "type": "COMMAND", "command": { "exit_code": 1 } },
    });
    p.update_with(&mut executor, "t", "TASK_RUNNING", more).await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    p.acknowledged(&mut framework).await?;
    for tasks in [json!([]), json!([{ "task_id": { "value": "t" }, "agent_id": offer["agent_id"] }])] {
        p.call(&framework, "RECONCILE", json!({ "reconcile": { "tasks": tasks } })).await?;
        p.expect(&mut framework, "UPDATE").await?;
    }
    let shown = p.framework_state(&framework).await?;
    p.note("tasks", &shown["tasks"]);
    Ok(())
}

// M223, M224
async fn ended_tasks_are_reconciled_until_acknowledged(p: &mut Player) -> Result<()> {
    let (mut framework, offer, mut executor) = one(p).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    let status = p.expect(&mut framework, "UPDATE").await?["update"]["status"].clone();
    let asked = json!([{ "task_id": { "value": "t" }, "agent_id": offer["agent_id"] }]);
    for _ in 0..2 {
        for tasks in [json!([]), asked.clone()] {
            p.call(&framework, "RECONCILE", json!({ "reconcile": { "tasks": tasks } })).await?;
        }
        told_so_far(p, &mut framework, &executor).await?;
        acknowledge(p, &framework, &status, &status["uuid"]).await?;
    }
    Ok(())
}

// M189
async fn what_takes_too_long_to_fetch_is_given_up(p: &mut Player) -> Result<()> {
    // Connections are taken by the system and never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let mut task = p.task(&offer, "t", "e");
    let uri = format!("http://{}/never", silent.local_addr()?);
    task["executor"]["command"]["uris"] = json!([{ "value": uri, "extract": false }]);
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    // How the fetcher ended, and in which words that is told, is chance there.
    let failure = framework.stream.news().await?;
    p.note("event", &json!([failure["type"], failure["failure"]["executor_id"]]));
    let status = p.acknowledged_quietly(&mut framework).await?;
    p.note_fields("status", &status, &["task_id", "state", "reason", "source", "executor_id"]);
    Ok(())
}
