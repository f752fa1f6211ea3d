//! LAUNCH and LAUNCH_GROUP: what is wrong with tasks, executors and groups.

use anyhow::Result;
use serde_json::{Value, json};

use super::reservations::{reserve, reserved, the_agent, unreserve};
use crate::{
    compare::{Script, scripts},
    framework::{Framework, accept, info, launch, scalar, with},
    player::Player,
};

/// Needs one agent.
pub const LAUNCH: &[Script] = scripts![
    more_bad_tasks_are_refused,
    bad_checks_are_refused,
    bad_groups_are_refused,
    a_launch_has_no_id_of_its_own,
    a_group_reaches_its_executor_whole,
    offers_of_two_roles_are_refused,
    an_executor_runs_tasks_of_several_roles,
    two_executors_share_an_agent,
];

/// Needs two agents.
pub const LAUNCH_ON_TWO_AGENTS: &[Script] = scripts![executors_of_one_id_may_differ_between_agents];

/// LAUNCH_GROUP.
pub fn launch_group(executor: &Value, tasks: &[Value]) -> Value {
    json!({ "type": "LAUNCH_GROUP", "launch_group": { "executor": executor, "task_group": { "tasks": tasks } } })
}

/// An executor for groups: they need some disk too.
pub fn group_executor(p: &Player, framework: &Framework) -> Value {
    let executor = with(p.executor_info("e"), "framework_id", json!({ "value": framework.id }));
    with(executor, "resources", json!([scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 10.0)]))
}

fn seconds(seconds: f64) -> Value {
    json!({ "nanoseconds": seconds * 1e9 })
}

/// Without its executor.
fn grouped(mut task: Value) -> Value {
    task.as_object_mut().map(|fields| fields.remove("executor"));
    task
}

fn ports(begin: u64, end: u64) -> Value {
    json!({ "name": "ports", "type": "RANGES", "ranges": { "range": [{ "begin": begin, "end": end }] } })
}

fn tasks(task: &Value) -> Vec<(&'static str, Value)> {
    let container = |container: Value| with(task.clone(), "container", container);
    let volume = |volume: Value| container(json!({ "type": "MESOS", "mesos": {}, "volumes": [volume] }));
    let limits = |name: &str, value: f64| with(task.clone(), "limits", json!({ name: { "value": value } }));
    let resources = |resources: Value| with(task.clone(), "resources", resources);
    let nameless = json!({ "value": "true", "environment": { "variables": [{ "name": "ENV_VAR_KEY" }] } });
    let image = json!({ "type": "DOCKER", "docker": { "name": "i" } });
    let executor =
        |executor: Value| with(resources(json!([scalar("cpus", 0.5), ports(31000, 31001)])), "executor", executor);
    vec![
        ("M143", with(grouped(task.clone()), "command", nameless)),
        ("M146 none", volume(json!({ "mode": "RW", "container_path": "p" }))),
        ("M146 two", volume(json!({ "mode": "RW", "container_path": "p", "host_path": "/h", "image": image }))),
        ("M146 source", volume(json!({ "mode": "RW", "container_path": "p", "source": { "type": "HOST_PATH" } }))),
        ("M147", limits("cpus", 0.1)),
        ("M147 mem", limits("mem", 1.0)),
        ("M148", limits("disk", 10.0)),
        (
            "M155",
            executor(with(task["executor"].clone(), "resources", json!([scalar("cpus", 0.1), ports(31001, 31002)]))),
        ),
        ("M156", resources(json!([scalar("cpus", 0.00001), scalar("mem", 1.0)]))),
        ("negative", resources(json!([scalar("cpus", -1.0)]))),
        ("completion", with(task.clone(), "max_completion_time", seconds(-1.0))),
    ]
}

/// Lets the master judge the operation; so many tasks are refused.
async fn judged(
    p: &mut Player,
    framework: &mut Framework,
    offer: Value,
    operation: Value,
    tasks: usize,
) -> Result<Value> {
    p.call(framework, "ACCEPT", accept(&[offer], &[operation])).await?;
    for _ in 0..tasks {
        p.expect(framework, "UPDATE").await?;
    }
    p.call(framework, "REVIVE", json!({})).await?;
    Ok(p.offers_quietly(framework, 1).await?.remove(0))
}

// M143, M146 to M148, M155, M156
async fn more_bad_tasks_are_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let mut offer = p.offer(&mut framework).await?;
    for (what, task) in tasks(&p.task(&offer, "t", "e")) {
        p.note("task", &what.into());
        offer = judged(p, &mut framework, offer, launch(&[task]), 1).await?;
    }
    Ok(())
}

// M157, M158
async fn bad_checks_are_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let mut offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    let command = json!({ "value": "true" });
    let health = [
        json!({}),
        json!({ "type": "UNKNOWN" }),
        json!({ "type": "COMMAND" }),
        json!({ "type": "HTTP" }),
        json!({ "type": "TCP" }),
        json!({ "type": "COMMAND", "command": {} }),
        json!({ "type": "HTTP", "http": { "port": 80, "path": "healthz" } }),
        json!({ "type": "HTTP", "http": { "port": 80, "scheme": "gopher" } }),
        json!({ "type": "COMMAND", "command": command, "delay_seconds": -1.0 }),
        json!({ "type": "COMMAND", "command": command, "interval_seconds": -1.0 }),
        json!({ "type": "COMMAND", "command": command, "timeout_seconds": -1.0 }),
        json!({ "type": "COMMAND", "command": command, "grace_period_seconds": -1.0 }),
    ];
    let checks = [
        json!({ "command": { "command": command } }),
        json!({ "type": "UNKNOWN" }),
        json!({ "type": "COMMAND" }),
        json!({ "type": "HTTP" }),
        json!({ "type": "TCP" }),
        json!({ "type": "COMMAND", "command": { "command": {} } }),
        json!({ "type": "HTTP", "http": { "port": 80, "path": "healthz" } }),
        json!({ "type": "COMMAND", "command": { "command": command }, "delay_seconds": -1.0 }),
        json!({ "type": "COMMAND", "command": { "command": command }, "interval_seconds": -1.0 }),
        json!({ "type": "COMMAND", "command": { "command": command }, "timeout_seconds": -1.0 }),
    ];
    let all = health.iter().map(|check| ("health_check", check)).chain(checks.iter().map(|check| ("check", check)));
    for (field, check) in all {
        p.note(field, check);
        let task = with(with(task.clone(), field, check.clone()), "agent_id", offer["agent_id"].clone());
        offer = judged(p, &mut framework, offer, launch(&[task]), 1).await?;
    }
    Ok(())
}

fn groups(executor: &Value, framework: &Framework, task: &Value) -> Vec<(&'static str, Value)> {
    let id = json!({ "value": framework.id });
    let known = with(executor.clone(), "framework_id", id);
    let second = with(task.clone(), "task_id", json!({ "value": "second" }));
    let mut default = with(known.clone(), "type", "DEFAULT".into());
    default.as_object_mut().map(|fields| fields.remove("command"));
    let with_task = |task: Value| launch_group(&known, &[task, second.clone()]);
    let of = |executor: Value| launch_group(&executor, &[task.clone(), second.clone()]);
    let networks = json!({ "type": "MESOS", "mesos": {}, "network_infos": [{ "name": "net" }] });
    let check = |kind: &str, field: &str| {
        let check = json!({ "type": kind, field: { "port": 80 } });
        with(with(task.clone(), "container", networks.clone()), "health_check", check)
    };
    let nameless = json!({ "value": "true", "environment": { "variables": [{ "name": "ENV_VAR_KEY" }] } });
    let image = json!({ "type": "MESOS", "mesos": { "image": { "type": "DOCKER", "docker": { "name": "i" } } } });
    let on_ports = |task: &Value| with(task.clone(), "resources", json!([scalar("cpus", 0.1), ports(31000, 31000)]));
    vec![
        ("M131", of(with(executor.clone(), "framework_id", Value::Null))),
        ("no cpus", of(with(known.clone(), "resources", json!([scalar("mem", 32.0), scalar("disk", 10.0)])))),
        ("no mem", of(with(known.clone(), "resources", json!([scalar("cpus", 0.1), scalar("disk", 10.0)])))),
        ("no disk", of(with(known.clone(), "resources", json!([scalar("cpus", 0.1), scalar("mem", 32.0)])))),
        ("M149 command", of(with(known.clone(), "type", "DEFAULT".into()))),
        (
            "M149 container",
            of(with(default.clone(), "container", json!({ "type": "DOCKER", "docker": { "image": "i" } }))),
        ),
        ("M149 image", of(with(default.clone(), "container", image))),
        ("M149 custom", of(with(default, "type", "CUSTOM".into()))),
        ("M151", with_task(with(task.clone(), "container", json!({ "type": "DOCKER", "docker": { "image": "i" } })))),
        ("M152 HTTP", with_task(check("HTTP", "http"))),
        ("M152 TCP", with_task(check("TCP", "tcp"))),
        ("M153", with_task(with(task.clone(), "executor", with(known.clone(), "name", "another".into())))),
        ("M154 executor", of(with(known.clone(), "command", nameless.clone()))),
        ("M154 task", with_task(with(task.clone(), "command", nameless))),
        ("M155", launch_group(&known, &[on_ports(task), on_ports(&second)])),
        ("too much", with_task(with(task.clone(), "resources", json!([scalar("cpus", 100.0)])))),
    ]
}

// M131, M149, M151 to M155
async fn bad_groups_are_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let mut offer = p.offer(&mut framework).await?;
    let task = grouped(p.task(&offer, "1", "e"));
    for (what, operation) in groups(&group_executor(p, &framework), &framework, &task) {
        p.note("group", &what.into());
        offer = judged(p, &mut framework, offer, operation, 2).await?;
    }
    Ok(())
}

// M128
async fn a_launch_has_no_id_of_its_own(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let task = p.task(&offer, "t", "e");
    let id = json!({ "value": "operation" });
    let single = with(launch(std::slice::from_ref(&task)), "id", id.clone());
    let offer = judged(p, &mut framework, offer, single, 1).await?;
    let group = with(launch_group(&p.executor_info("e"), &[grouped(task)]), "id", id);
    judged(p, &mut framework, offer, group, 1).await?;
    Ok(())
}

// M295, M187, M186
async fn a_group_reaches_its_executor_whole(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let executor = group_executor(p, &framework);
    let members = ["t", "u"].map(|name| grouped(p.task(&offer, name, "e")));
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch_group(&executor, &members)])).await?;
    let mut played = p.executor(&framework, "e").await?;
    p.executor_event(&mut played, "LAUNCH_GROUP").await?;
    for name in ["t", "u"] {
        p.passes_on(&mut played, &mut framework, name, "TASK_RUNNING").await?;
    }
    let kill = json!({ "task_id": { "value": "u" } });
    p.call(&framework, "KILL", json!({ "kill": kill })).await?;
    p.executor_event(&mut played, "KILL").await?;
    Ok(())
}

// M126
async fn offers_of_two_roles_are_refused(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let part = reserved("b", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    reserve(p, &agent, &part).await?;
    let mut framework = p.framework(info(&["a", "b"])).await?;
    let offers = p.offers_quietly(&mut framework, 2).await?;
    let task = p.task(&offers[0], "t", "e");
    p.call(&framework, "ACCEPT", accept(&offers, &[launch(&[task])])).await?;
    let event = framework.stream.news().await?;
    // Which of the roles is named first has no certain order.
    p.note_fields("refused", &event["update"]["status"], &["state", "reason", "source"]);
    unreserve(p, &agent, &part).await
}

// M139
async fn an_executor_runs_tasks_of_several_roles(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let part = reserved("b", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    reserve(p, &agent, &part).await?;
    let mut framework = p.framework(info(&["a", "b"])).await?;
    let mut offers = p.offers_quietly(&mut framework, 2).await?;
    offers.sort_by_key(|offer| offer["allocation_info"]["role"].to_string());
    let of_role = |mut value: Value, role: &str| {
        for resource in value["resources"].as_array_mut().into_iter().flatten() {
            resource["allocation_info"] = json!({ "role": role });
        }
        value
    };
    // The executor is of the first role, whoever its tasks are.
    let first = p.task(&offers[0], "t", "e");
    let executor = of_role(with(first["executor"].clone(), "resources", json!([scalar("cpus", 0.1)])), "a");
    let first = with(first, "executor", executor.clone());
    p.call(&framework, "ACCEPT", accept(&offers[..1], &[launch(&[first])])).await?;
    let mut played = p.executor(&framework, "e").await?;
    p.executor_event(&mut played, "LAUNCH").await?;
    p.passes_on(&mut played, &mut framework, "t", "TASK_RUNNING").await?;
    let second = with(p.task(&offers[1], "u", "e"), "resources", part.clone());
    let second = with(of_role(second, "b"), "executor", executor);
    p.call(&framework, "ACCEPT", accept(&offers[1..], &[launch(&[second])])).await?;
    p.executor_event(&mut played, "LAUNCH").await?;
    p.passes_on(&mut played, &mut framework, "u", "TASK_RUNNING").await?;
    for task in ["t", "u"] {
        p.passes_on(&mut played, &mut framework, task, "TASK_FINISHED").await?;
    }
    unreserve(p, &agent, &part).await
}

// M202
async fn two_executors_share_an_agent(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let both = ["t", "u"].map(|name| p.task(&offer, name, name));
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&both)])).await?;
    for name in ["t", "u"] {
        let mut executor = p.executor(&framework, name).await?;
        p.executor_event(&mut executor, "LAUNCH").await?;
        p.passes_on(&mut executor, &mut framework, name, "TASK_RUNNING").await?;
    }
    Ok(())
}

// M140
async fn executors_of_one_id_may_differ_between_agents(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offers = p.offers(&mut framework, 2).await?;
    for (offer, name) in offers.iter().zip(["t", "u"]) {
        let task = p.task(offer, name, "e");
        let executor = with(task["executor"].clone(), "name", name.into());
        let task = with(task, "executor", executor);
        p.call(&framework, "ACCEPT", accept(std::slice::from_ref(offer), &[launch(&[task])])).await?;
        let mut executor = p.executor(&framework, "e").await?;
        p.executor_event(&mut executor, "LAUNCH").await?;
        p.passes_on(&mut executor, &mut framework, name, "TASK_RUNNING").await?;
        p.executor_forgotten(&framework, "e")?;
    }
    Ok(())
}
