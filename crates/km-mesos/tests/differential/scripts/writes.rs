//! What operators change: reservations, weights, quota and the end of frameworks, also by the older endpoints.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    quota::set,
    reservations::{reserve, reserved, the_agent, unreserve},
};
use crate::{
    compare::{Script, scripts},
    framework::{accept, decline, info, launch, scalar, with},
    player::Player,
};

/// Needs one agent.
pub const WRITES: &[Script] = scripts![
    reservations_show_in_the_next_offer,
    a_reservation_moves_to_another_role,
    frameworks_are_torn_down,
    forms_reserve_and_unreserve,
    reservations_with_other_labels_are_others,
    bad_forms_are_refused,
    bad_weights_are_refused,
    quota_is_shown_everywhere,
    many_quotas_are_set_or_none,
    guarantees_must_fit_the_cluster,
    limits_must_allow_what_is_used,
    a_guarantee_makes_room,
    a_limit_takes_offers_back,
    roles_are_listed_for_every_reason,
];

// M301
async fn reservations_show_in_the_next_offer(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let mut framework = p.framework(info(&["a"])).await?;
    p.offers_quietly(&mut framework, 1).await?;
    let part = reserved("a", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    reserve(p, &agent, &part).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.offer(&mut framework).await?;
    unreserve(p, &agent, &part).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.offer(&mut framework).await?;
    unreserve(p, &agent, &part).await
}

// M302
async fn a_reservation_moves_to_another_role(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let part = |role: &str| reserved(role, &[scalar("cpus", 1.0)]);
    reserve(p, &agent, &part("role/foo")).await?;
    for (source, target) in [("role/other", "role/bar"), ("role/foo", "role/bar"), ("role/foo", "role/bar")] {
        let body = json!({ "agent_id": agent, "source": part(source), "resources": part(target) });
        p.operator(json!({ "type": "RESERVE_RESOURCES", "reserve_resources": body })).await?;
        let shown = p.state("/slaves").await?;
        p.note("reserved", &shown["slaves"][0]["reserved_resources_full"]);
    }
    unreserve(p, &agent, &part("role/bar")).await
}

async fn form(p: &mut Player, path: &str, fields: &[(&str, String)]) -> Result<()> {
    let mut body = reqwest::Url::parse("http://form")?;
    body.query_pairs_mut().extend_pairs(fields);
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    p.request("POST", path, &headers, body.query().unwrap_or_default().to_owned()).await?;
    Ok(())
}

// M309
async fn frameworks_are_torn_down(p: &mut Player) -> Result<()> {
    for path in ["v1", "/teardown"] {
        let mut framework = p.framework(info(&["a"])).await?;
        if path == "v1" {
            let id = json!({ "value": framework.id });
            p.operator(json!({ "type": "TEARDOWN", "teardown": { "framework_id": id } })).await?;
            p.operator(json!({ "type": "TEARDOWN", "teardown": { "framework_id": { "value": "unknown" } } })).await?;
            p.operator(json!({ "type": "TEARDOWN" })).await?;
        } else {
            form(p, path, &[("other", "x".to_owned())]).await?;
            form(p, path, &[("frameworkId", "unknown".to_owned())]).await?;
            form(p, path, &[("frameworkId", framework.id.clone())]).await?;
        }
        p.closed(&mut framework).await?;
        let shown = p.state("/frameworks").await?;
        let completed = shown["completed_frameworks"].as_array().context("completed frameworks")?;
        p.note("completed", &completed.iter().any(|one| one["id"] == framework.id).into());
    }
    Ok(())
}

fn on_agent(agent: &Value, resources: &Value) -> [(&'static str, String); 2] {
    let id = agent["value"].as_str().unwrap_or_default().to_owned();
    [("slaveId", id), ("resources", resources.to_string())]
}

/// As the older endpoints want it, without the types that JSON of v1 leaves out.
fn old(role: &str, cpus: f64, more: Value) -> Value {
    let mut reservation = more;
    reservation["type"] = "DYNAMIC".into();
    reservation["role"] = role.into();
    json!([with(scalar("cpus", cpus), "reservations", json!([reservation]))])
}

// M319
async fn forms_reserve_and_unreserve(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let mut framework = p.framework(info(&["a"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let part = old("a", 1.0, json!({}));
    form(p, "/reserve", &on_agent(&agent, &part)).await?;
    p.expect(&mut framework, "RESCIND").await?;
    let offer_after = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer, offer_after], 3600.0)).await?;
    form(p, "/unreserve", &on_agent(&agent, &part)).await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M320
async fn reservations_with_other_labels_are_others(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let labelled = |value: &str| old("a", 1.0, json!({ "labels": { "labels": [{ "key": "k", "value": value }] } }));
    for value in ["one", "two"] {
        form(p, "/reserve", &on_agent(&agent, &labelled(value))).await?;
    }
    form(p, "/reserve", &on_agent(&agent, &old("a", 1.0, json!({ "principal": "p" })))).await?;
    let shown = p.state("/slaves").await?;
    let mut all = shown["slaves"][0]["reserved_resources_full"]["a"].as_array().cloned().unwrap_or_default();
    all.sort_by_key(Value::to_string);
    p.note("reserved", &all.into());
    for value in ["one", "one", "two"] {
        form(p, "/unreserve", &on_agent(&agent, &labelled(value))).await?;
    }
    form(p, "/unreserve", &on_agent(&agent, &old("a", 1.0, json!({ "principal": "p" })))).await
}

// M321
async fn bad_forms_are_refused(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let part = old("a", 1.0, json!({}));
    let [id, resources] = on_agent(&agent, &part);
    for path in ["/reserve", "/unreserve"] {
        form(p, path, std::slice::from_ref(&resources)).await?;
        form(p, path, std::slice::from_ref(&id)).await?;
        form(p, path, &[("slaveId", "unknown".to_owned()), resources.clone()]).await?;
        form(p, path, &[id.clone(), ("resources", "[{\"name\":".to_owned())]).await?;
        form(p, path, &on_agent(&agent, &old("a", 100.0, json!({})))).await?;
        form(p, path, &on_agent(&agent, &old("*", 1.0, json!({})))).await?;
        form(p, path, &on_agent(&agent, &json!([scalar("cpus", 1.0)]))).await?;
    }
    Ok(())
}

// M327
async fn bad_weights_are_refused(p: &mut Player) -> Result<()> {
    let headers = [("Content-Type", "application/json")];
    for body in [
        "garbage".to_owned(),
        json!({ "weight": 1.0 }).to_string(),
        json!([{ "role": "a", "weight": 0.0 }]).to_string(),
        json!([{ "role": "a", "weight": -1.5 }]).to_string(),
        json!([{ "role": "a", "weight": "heavy" }]).to_string(),
        json!([{ "weight": 2.0 }]).to_string(),
        json!([{ "role": "/a", "weight": 2.0 }]).to_string(),
        json!([{ "role": "a" }]).to_string(),
    ] {
        p.request("PUT", "/weights", &headers, body).await?;
    }
    p.request("DELETE", "/weights", &headers, "").await?;
    p.request("PUT", "/weights", &headers, json!([{ "role": "w-put", "weight": 2.5 }]).to_string()).await?;
    let shown = p.state("/weights").await?;
    let all = shown.as_array().cloned().unwrap_or_default();
    p.note("/weights", all.iter().find(|one| one["role"] == "w-put").unwrap_or(&Value::Null));
    p.request("PUT", "/weights", &headers, json!([{ "role": "w-put", "weight": 1.0 }]).to_string()).await?;
    Ok(())
}

async fn role(p: &Player, name: &str) -> Result<Value> {
    let shown = p.state("/roles").await?;
    let all = shown["roles"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().find(|role| role["name"] == name).unwrap_or_default())
}

async fn note_quota(p: &mut Player, name: &str) -> Result<()> {
    let of_role = |configs: &Value| {
        configs.as_array().into_iter().flatten().find(|config| config["role"] == name).cloned().unwrap_or_default()
    };
    let shown = p.ask(json!({ "type": "GET_QUOTA" })).await?;
    p.note("GET_QUOTA configs", &of_role(&shown["get_quota"]["status"]["configs"]));
    p.note("GET_QUOTA infos", &of_role(&shown["get_quota"]["status"]["infos"]));
    let shown = p.state("/quota").await?;
    p.note("/quota configs", &of_role(&shown["configs"]));
    p.note("/quota infos", &of_role(&shown["infos"]));
    let shown = role(p, name).await?;
    p.note("/roles", &shown);
    Ok(())
}

// M328
async fn quota_is_shown_everywhere(p: &mut Player) -> Result<()> {
    set(p, "q1", json!({ "cpus": 1.0, "mem": 512.0 }), json!({ "cpus": 2.0, "mem": 1024.0 })).await?;
    note_quota(p, "q1").await?;
    set(p, "q1", json!({}), json!({ "cpus": 2.0 })).await?;
    note_quota(p, "q1").await?;
    set(p, "q1", json!({}), json!({})).await?;
    note_quota(p, "q1").await
}

fn config(role: &str, cpus: f64) -> Value {
    json!({ "role": role, "guarantees": {}, "limits": { "cpus": { "value": cpus } } })
}

// M329
async fn many_quotas_are_set_or_none(p: &mut Player) -> Result<()> {
    let update = |configs: Value| json!({ "type": "UPDATE_QUOTA", "update_quota": { "quota_configs": configs } });
    p.operator(update(json!([config("q1", 2.0), config("q2", -1.0)]))).await?;
    note_quota(p, "q1").await?;
    p.operator(update(json!([config("q1", 2.0), config("q2", 3.0)]))).await?;
    note_quota(p, "q1").await?;
    note_quota(p, "q2").await?;
    p.operator(update(json!([config("q1", 2.0), config("q1", 3.0)]))).await?;
    p.operator(update(json!([]))).await?;
    p.operator(json!({ "type": "UPDATE_QUOTA" })).await?;
    for role in ["q1", "q2"] {
        set(p, role, json!({}), json!({})).await?;
    }
    Ok(())
}

// M330, M331
async fn guarantees_must_fit_the_cluster(p: &mut Player) -> Result<()> {
    for (guarantees, limits) in [
        (json!({}), json!({ "cpus": 1_000_000_000_001_u64 })),
        (json!({}), json!({ "mem": 1_099_511_627_777_u64 })),
        (json!({ "cpus": 2.0 }), json!({ "cpus": 1.0 })),
        (json!({ "mem": 10.0 }), json!({ "cpus": 1.0 })),
        (json!({ "cpus": 5.0 }), json!({})),
        (json!({ "cpus": 4.0, "mem": 4097.0 }), json!({})),
    ] {
        set(p, "q3", guarantees, limits).await?;
    }
    set(p, "q3", json!({}), json!({})).await?;
    let force = json!({ "force": true, "quota_configs": [
        { "role": "q3", "guarantees": { "cpus": { "value": 5.0 } }, "limits": {} },
    ] });
    p.operator(json!({ "type": "UPDATE_QUOTA", "update_quota": force })).await?;
    set(p, "q3", json!({}), json!({})).await?;
    // The older calls, for a role that never had quota.
    for (cpus, force) in [(5.0, false), (5.0, true), (1.0, false)] {
        let request = json!({ "role": "q-old", "guarantee": [scalar("cpus", cpus)], "force": force });
        p.operator(json!({ "type": "SET_QUOTA", "set_quota": { "quota_request": request } })).await?;
    }
    note_quota(p, "q-old").await?;
    p.operator(json!({ "type": "REMOVE_QUOTA", "remove_quota": { "role": "q-old" } })).await?;
    note_quota(p, "q-old").await
}

// M332
async fn limits_must_allow_what_is_used(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["q4"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let resources = json!([scalar("cpus", 1.9), scalar("mem", 992.0)]);
    let task = with(p.task(&offer, "t", "t"), "resources", resources);
    p.call(&framework, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    set(p, "q4", json!({}), json!({ "cpus": 1.0 })).await?;
    set(p, "q4", json!({}), json!({ "cpus": 2.0, "mem": 1024.0 })).await?;
    let shown = role(p, "q4").await?;
    p.note("consumed", &shown["quota"]);
    let force = json!({ "force": true, "quota_configs": [config("q4", 1.0)] });
    p.operator(json!({ "type": "UPDATE_QUOTA", "update_quota": force })).await?;
    set(p, "q4", json!({}), json!({})).await
}

// M333
async fn a_guarantee_makes_room(p: &mut Player) -> Result<()> {
    let mut plain = p.framework(info(&["plain"])).await?;
    p.offers_quietly(&mut plain, 1).await?;
    let mut framework = p.framework(info(&["q5"])).await?;
    set(p, "q5", json!({ "cpus": 1.0, "mem": 512.0 }), json!({})).await?;
    p.expect(&mut plain, "RESCIND").await?;
    p.offer(&mut framework).await?;
    set(p, "q5", json!({}), json!({})).await
}

// M334
async fn a_limit_takes_offers_back(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["q6"])).await?;
    let mut below = p.framework(info(&["q6/below"])).await?;
    let offers = p.offers_quietly(&mut framework, 1).await?;
    set(p, "q6", json!({}), json!({ "cpus": 4.0, "mem": 4096.0, "disk": 4096.0 })).await?;
    p.quiet(&mut below).await?;
    p.call(&framework, "DECLINE", decline(&offers, 3600.0)).await?;
    p.offers_quietly(&mut below, 1).await?;
    set(p, "q6", json!({}), json!({ "cpus": 1.0 })).await?;
    p.expect(&mut below, "RESCIND").await?;
    set(p, "q6", json!({}), json!({})).await
}

// M326
async fn roles_are_listed_for_every_reason(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let infos = json!({ "weight_infos": [{ "role": "r1/weighed", "weight": 2.5 }] });
    p.operator(json!({ "type": "UPDATE_WEIGHTS", "update_weights": infos })).await?;
    let part = reserved("r2/reserved", &[scalar("cpus", 1.0), scalar("mem", 64.0)]);
    reserve(p, &agent, &part).await?;
    set(p, "r3", json!({}), json!({ "cpus": 2.0 })).await?;
    for name in ["r1", "r1/weighed", "r2", "r2/reserved", "r3", "unknown"] {
        let shown = role(p, name).await?;
        p.note(name, &shown);
    }
    set(p, "r3", json!({}), json!({})).await?;
    let infos = json!({ "weight_infos": [{ "role": "r1/weighed", "weight": 1.0 }] });
    p.operator(json!({ "type": "UPDATE_WEIGHTS", "update_weights": infos })).await?;
    unreserve(p, &agent, &part).await?;
    for name in ["r1", "r1/weighed", "r2", "r2/reserved", "r3"] {
        let shown = role(p, name).await?;
        p.note(name, &shown);
    }
    Ok(())
}
