//! What operators read of the master: GET_* calls and the older pages.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, accept, info, launch, with},
    player::{JSON, OPERATOR, Player},
};

/// Needs one agent.
pub const READS: &[Script] = scripts![
    agents_are_shown_whole,
    frameworks_are_shown_whole,
    simple_questions_are_answered,
    tasks_and_executors_are_shown,
    pages_may_be_asked_for_one,
    tasks_are_a_page,
    the_state_has_its_parts,
    the_summary_counts_tasks,
    metrics_are_there_from_the_start,
    calls_of_the_agent_check_their_headers,
    an_agent_shows_what_runs_on_it,
];

/// The names of an object's members.
fn members(value: &Value) -> Value {
    let mut names: Vec<&String> = value.as_object().into_iter().flat_map(|fields| fields.keys()).collect();
    names.sort();
    json!(names)
}

async fn ask(p: &mut Player, kind: &str, field: &str) -> Result<Value> {
    let shown = p.ask(json!({ "type": kind })).await?;
    p.note("type", &shown["type"]);
    Ok(shown[field].clone())
}

// M297, M316
async fn agents_are_shown_whole(p: &mut Player) -> Result<()> {
    let shown = ask(p, "GET_AGENTS", "get_agents").await?;
    p.note("GET_AGENTS", &shown);
    let of_master = p.state("/state").await?["slaves"][0].clone();
    let of_agent = p.agent_state("r0", "/state").await?;
    for shown in [of_master, of_agent] {
        p.note("/state", &json!({ "capabilities": shown["capabilities"] }));
    }
    Ok(())
}

// M298
async fn frameworks_are_shown_whole(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(with(info(&["a"]), "checkpoint", true.into())).await?;
    p.offers_quietly(&mut framework, 1).await?;
    let shown = ask(p, "GET_FRAMEWORKS", "get_frameworks").await?;
    let shown = shown["frameworks"].as_array().context("frameworks")?;
    let own = shown.iter().find(|one| one["framework_info"]["id"]["value"] == framework.id);
    p.note("GET_FRAMEWORKS", own.context("its own")?);
    Ok(())
}

// M299
async fn simple_questions_are_answered(p: &mut Player) -> Result<()> {
    for (kind, field) in [("GET_HEALTH", "get_health"), ("GET_LOGGING_LEVEL", "get_logging_level")] {
        let shown = ask(p, kind, field).await?;
        p.note(kind, &shown);
    }
    let shown = ask(p, "GET_MASTER", "get_master").await?;
    p.note("GET_MASTER", &shown);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs_f64();
    for field in ["start_time", "elected_time"] {
        p.note(field, &shown[field].as_f64().is_some_and(|time| time > 0.0 && time <= now).into());
    }
    let shown = ask(p, "GET_VERSION", "get_version").await?;
    p.note("version", &shown["version_info"]["version"]);
    let shown = ask(p, "GET_FLAGS", "get_flags").await?;
    let flags = shown["flags"].as_array().context("flags")?;
    let shown_flag = |name: &str| flags.iter().find(|flag| flag["name"] == name).cloned().unwrap_or_default();
    for name in ["allocation_interval", "max_agent_ping_timeouts"] {
        p.note("flag", &shown_flag(name));
    }
    p.operator(json!({ "type": "GET_METRICS" })).await?;
    let shown = p.ask(json!({ "type": "GET_METRICS", "get_metrics": {} })).await?["get_metrics"].clone();
    let metrics = shown["metrics"].as_array().context("metrics")?;
    for name in ["master/elected", "master/slaves_active"] {
        p.note("metric", metrics.iter().find(|metric| metric["name"] == name).unwrap_or(&Value::Null));
    }
    for kind in ["UNKNOWN", "GET_NOTHING"] {
        p.operator(json!({ "type": kind })).await?;
    }
    Ok(())
}

/// A running task with a health check, and its framework.
async fn running(p: &mut Player) -> Result<(Framework, crate::executor::Executor)> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let check = json!({ "type": "COMMAND", "command": { "value": "true" }, "delay_seconds": 5.0 });
    let task = with(p.task(&offer, "t", "t"), "health_check", check);
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_RUNNING").await?;
    // The acknowledgement has passed the master.
    p.settled(&framework, &mut executor).await?;
    Ok((framework, executor))
}

fn own(shown: &Value, list: &str, framework: &Framework) -> Value {
    let tasks = shown[list].as_array().cloned().unwrap_or_default();
    tasks.into_iter().filter(|task| task["framework_id"]["value"] == framework.id).collect()
}

async fn note_tasks(p: &mut Player, framework: &Framework) -> Result<()> {
    let shown = ask(p, "GET_TASKS", "get_tasks").await?;
    for list in ["pending_tasks", "tasks", "unreachable_tasks", "completed_tasks", "orphan_tasks"] {
        let tasks = own(&shown, list, framework);
        p.note(list, &tasks);
    }
    let shown = ask(p, "GET_EXECUTORS", "get_executors").await?;
    p.note("GET_EXECUTORS", &shown);
    let shown = ask(p, "GET_STATE", "get_state").await?;
    let listed = members(&shown);
    p.note("GET_STATE", &listed);
    let tasks = own(&shown["get_tasks"], "tasks", framework);
    p.note("tasks of GET_STATE", &tasks);
    Ok(())
}

// M300
async fn tasks_and_executors_are_shown(p: &mut Player) -> Result<()> {
    let (mut framework, mut executor) = running(p).await?;
    note_tasks(p, &framework).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    executor.exit(0)?;
    p.expect(&mut framework, "FAILURE").await?;
    note_tasks(p, &framework).await
}

// M313
async fn pages_may_be_asked_for_one(p: &mut Player) -> Result<()> {
    let shown = p.state("/slaves").await?;
    let id = shown["slaves"][0]["id"].as_str().context("an agent")?.to_owned();
    for id in [id.as_str(), "unknown"] {
        let shown = p.state(&format!("/slaves?slave_id={id}")).await?;
        let ids: Vec<&Value> = shown["slaves"].as_array().into_iter().flatten().map(|agent| &agent["id"]).collect();
        p.note("/slaves", &json!(ids));
        p.note("recovered", &shown["recovered_slaves"]);
    }
    let first = p.framework(with(info(&["a"]), "name", "first".into())).await?;
    let mut second = p.framework(with(info(&["a"]), "name", "second".into())).await?;
    p.call(&second, "TEARDOWN", json!({})).await?;
    p.closed(&mut second).await?;
    for id in [first.id.as_str(), second.id.as_str(), "unknown"] {
        let shown = p.state(&format!("/frameworks?framework_id={id}")).await?;
        let listed = members(&shown);
        p.note("members", &listed);
        for list in ["frameworks", "completed_frameworks"] {
            let frameworks = shown[list].as_array().into_iter().flatten();
            let names: Vec<&Value> = frameworks.map(|framework| &framework["name"]).collect();
            p.note(list, &json!(names));
        }
    }
    Ok(())
}

// M314
async fn tasks_are_a_page(p: &mut Player) -> Result<()> {
    let (mut framework, mut executor) = running(p).await?;
    let shown = p.state("/tasks?task_id=t").await?;
    let tasks = shown["tasks"].as_array().cloned().unwrap_or_default();
    let task = tasks.iter().find(|task| task["framework_id"] == framework.id).context("its task")?;
    p.note("/tasks", task);
    let shown = p.state("/tasks?task_id=unknown").await?;
    p.note("/tasks of another", &shown);
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    let ended = |shown: &Value| shown["tasks"][0]["state"] == "TASK_FINISHED";
    p.until(&format!("/tasks?framework_id={}&order=asc", framework.id), ended).await?;
    Ok(())
}

// M315
async fn the_state_has_its_parts(p: &mut Player) -> Result<()> {
    let state = p.state("/state").await?;
    for name in [
        "activated_slaves",
        "deactivated_slaves",
        "unreachable_slaves",
        "orphan_tasks",
        "frameworks",
        "unregistered_frameworks",
        "recovered_slaves",
        "capabilities",
        "leader_info",
        "version",
    ] {
        p.note_fields("/state", &state, &[name]);
    }
    for name in [
        "build_date",
        "build_time",
        "build_user",
        "start_time",
        "elected_time",
        "id",
        "pid",
        "hostname",
        "flags",
        "slaves",
        "completed_frameworks",
        "leader",
    ] {
        p.note(name, &(!state[name].is_null()).into());
    }
    Ok(())
}

// M317
async fn the_summary_counts_tasks(p: &mut Player) -> Result<()> {
    let (mut framework, mut executor) = running(p).await?;
    for state in ["TASK_KILLED", "TASK_RUNNING"] {
        let shown = p.state("/state-summary").await?;
        let frameworks = shown["frameworks"].as_array().context("frameworks")?;
        let own = frameworks.iter().find(|one| one["id"] == framework.id).context("its framework")?.clone();
        let mut own = own;
        if let Some(fields) = own.as_object_mut() {
            // The rest of the agent may be offered by now, or not.
            fields.remove("offered_resources");
        }
        p.note("framework", &own);
        // Other scripts' tasks are counted with the agent too.
        p.note_fields(
            "agent",
            &shown["slaves"][0],
            &["framework_ids", "TASK_RUNNING", "TASK_STAGING", "TASK_UNREACHABLE"],
        );
        if state == "TASK_KILLED" {
            p.passes_on(&mut executor, &mut framework, "t", state).await?;
            p.settled(&framework, &mut executor).await?;
        }
    }
    Ok(())
}

// M318
async fn metrics_are_there_from_the_start(p: &mut Player) -> Result<()> {
    let shown = p.state("/metrics/snapshot").await?;
    let mut names: Vec<&str> = shown.as_object().context("metrics")?.keys().map(String::as_str).collect();
    names.retain(|name| ["master/", "registrar/", "allocator/"].iter().any(|start| name.starts_with(start)));
    // Of frameworks, roles and what earlier scripts did; timings and the replicated log, of which the embedded master
    // has none; and what it counts besides.
    let others = ["master/frameworks/", "master/task_", "registrar/log/", "registrar/registry_size_bytes"];
    let own = ["master/offers_", "master/operations_launch", "master/invalid_accepts"];
    names.retain(|name| !others.iter().chain(&own).any(|start| name.starts_with(start)));
    names.retain(|name| !name.contains("/roles/") && !name.contains("_ms"));
    names.sort_unstable();
    for name in names {
        p.mark(format!("metric {name}"));
    }
    let shown = p.agent_state("r0", "/metrics/snapshot").await?;
    let mut names: Vec<&str> = shown.as_object().context("metrics")?.keys().map(String::as_str).collect();
    names.retain(|name| name.starts_with("slave/"));
    names.sort_unstable();
    for name in names {
        p.mark(format!("metric {name}"));
    }
    Ok(())
}

// M311
async fn calls_of_the_agent_check_their_headers(p: &mut Player) -> Result<()> {
    let address = p.agent_address("r0").await?;
    let attach = json!({ "type": "ATTACH_CONTAINER_INPUT", "attach_container_input": { "type": "CONTAINER_ID",
        "container_id": { "value": "unknown" } } })
    .to_string();
    let cases: [(Vec<(&str, &str)>, String); 6] = [
        (vec![("Content-Type", "application/recordio"), ("Accept", "application/json")], attach.clone()),
        (
            vec![
                ("Content-Type", "application/recordio"),
                ("Message-Content-Type", "application/unknown"),
                ("Accept", "application/json"),
            ],
            attach.clone(),
        ),
        (
            vec![
                ("Content-Type", "application/json"),
                ("Accept", "application/recordio"),
                ("Message-Accept", "application/unknown"),
            ],
            json!({ "type": "GET_HEALTH" }).to_string(),
        ),
        (
            vec![
                ("Content-Type", "application/json"),
                ("Message-Content-Type", "application/json"),
                ("Accept", "application/json"),
            ],
            json!({ "type": "GET_HEALTH" }).to_string(),
        ),
        (
            vec![("Content-Type", "application/json"), ("Accept", "application/recordio")],
            json!({ "type": "GET_HEALTH" }).to_string(),
        ),
        (vec![("Content-Type", "application/json"), ("Accept", "foo")], json!({ "type": "GET_HEALTH" }).to_string()),
    ];
    for (headers, body) in cases {
        let response = p.send_to(&address, "POST", OPERATOR, &headers, body).await?;
        p.take("agent", response).await?;
    }
    for call in [json!({}), json!({ "type": "UNKNOWN" }), json!({ "type": "READ_FILE" })] {
        let response = p.send_to(&address, "POST", OPERATOR, &JSON, call.to_string()).await?;
        p.take("agent", response).await?;
    }
    Ok(())
}

const LISTS: [&str; 5] = ["pending_tasks", "queued_tasks", "launched_tasks", "terminated_tasks", "completed_tasks"];

async fn note_agent_tasks(p: &mut Player, framework: &Framework) -> Result<()> {
    let ask = |kind: &str| json!({ "type": kind });
    let address = p.agent_address("r0").await?;
    let mut shown = serde_json::Map::new();
    for kind in ["GET_TASKS", "GET_EXECUTORS", "GET_FRAMEWORKS", "GET_CONTAINERS", "GET_STATE"] {
        let response = p.send_to(&address, "POST", OPERATOR, &JSON, ask(kind).to_string()).await?;
        let body: Value = serde_json::from_str(&crate::player::text(response).await?)?;
        shown.insert(kind.to_owned(), body[kind.to_lowercase()].clone());
    }
    let shown = Value::Object(shown);
    for list in LISTS {
        let tasks = own(&shown["GET_TASKS"], list, framework);
        p.note(list, &tasks);
    }
    let of = |list: &Value, field: &str| -> Value {
        let all = list.as_array().cloned().unwrap_or_default();
        let pointer =
            if field == "framework_info" { "/framework_info/id/value" } else { "/executor_info/framework_id/value" };
        all.into_iter().filter(|one| one.pointer(pointer).is_some_and(|id| *id == framework.id)).collect()
    };
    for (list, what) in [("executors", "executor"), ("completed_executors", "executor")] {
        p.note(list, &of(&shown["GET_EXECUTORS"][list], what));
    }
    for list in ["frameworks", "completed_frameworks"] {
        p.note(list, &of(&shown["GET_FRAMEWORKS"][list], "framework_info"));
    }
    let listed = members(&shown["GET_STATE"]);
    p.note("GET_STATE", &listed);
    let containers = shown["GET_CONTAINERS"]["containers"].as_array().cloned().unwrap_or_default();
    for container in containers.iter().filter(|container| container["framework_id"]["value"] == framework.id) {
        p.note_fields("container", container, &["framework_id", "executor_id", "executor_name", "container_id"]);
    }
    Ok(())
}

// M310
async fn an_agent_shows_what_runs_on_it(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    note_agent_tasks(p, &framework).await?;
    let task = p.task(&offer, "t", "t");
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    p.executor_begins(&framework, "t").await?;
    note_agent_tasks(p, &framework).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_RUNNING").await?;
    p.settled(&framework, &mut executor).await?;
    note_agent_tasks(p, &framework).await?;
    p.update(&mut executor, "t", "TASK_FINISHED").await?;
    p.executor_event(&mut executor, "ACKNOWLEDGED").await?;
    p.expect(&mut framework, "UPDATE").await?;
    note_agent_tasks(p, &framework).await
}
