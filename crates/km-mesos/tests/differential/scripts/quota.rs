//! Quota: what is kept free for a role, and what it may not exceed.

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{amounts, decline, info, launch, scalar, with},
    player::Player,
};

/// Needs one agent.
pub const QUOTA: &[Script] = scripts![
    what_a_role_declines_is_held_back_for_it,
    a_role_gets_no_more_than_its_limit,
    a_guarantee_is_given_finely,
    reservations_consume_quota,
    reservations_are_no_headroom,
    only_roles_at_the_top_have_quota,
    one_limit_reached_leaves_the_others,
    bad_quota_is_refused,
];

fn scalars(amounts: Value) -> Value {
    let Value::Object(amounts) = amounts else { return json!({}) };
    let scalars: Map<String, Value> =
        amounts.into_iter().map(|(name, value)| (name, json!({ "value": value }))).collect();
    Value::Object(scalars)
}

/// Sets a role's quota; both are amounts by name.
pub async fn set(p: &mut Player, role: &str, guarantees: Value, limits: Value) -> Result<()> {
    let config = json!({ "role": role, "guarantees": scalars(guarantees), "limits": scalars(limits) });
    let update = json!({ "quota_configs": [config] });
    p.operator(json!({ "type": "UPDATE_QUOTA", "update_quota": update })).await?;
    Ok(())
}

async fn note_quota(p: &mut Player) -> Result<()> {
    let shown = p.ask(json!({ "type": "GET_QUOTA" })).await?;
    let mut configs = shown["get_quota"]["status"]["configs"].as_array().cloned().unwrap_or_default();
    configs.sort_by_key(Value::to_string);
    p.note("GET_QUOTA", &configs.into());
    Ok(())
}

// M114, M116
async fn what_a_role_declines_is_held_back_for_it(p: &mut Player) -> Result<()> {
    set(p, "q1", json!({ "cpus": 4.0, "mem": 4096.0 }), json!({})).await?;
    note_quota(p).await?;
    let mut plain = p.framework(info(&["plain"])).await?;
    p.quiet(&mut plain).await?;
    let mut framework = p.framework(info(&["q1"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 3600.0)).await?;
    p.quiet(&mut plain).await?;
    p.quiet(&mut framework).await?;
    set(p, "q1", json!({}), json!({})).await?;
    note_quota(p).await?;
    p.offer(&mut plain).await?;
    Ok(())
}

// M115
async fn a_role_gets_no_more_than_its_limit(p: &mut Player) -> Result<()> {
    for role in ["*", "q2"] {
        set(p, role, json!({}), json!({ "cpus": 0.0, "mem": 0.0 })).await?;
        let mut framework = p.framework(info(&[role])).await?;
        p.quiet(&mut framework).await?;
        set(p, role, json!({}), json!({ "cpus": 2.0, "mem": 2048.0 })).await?;
        let half = p.offer(&mut framework).await?;
        let mut plain = p.framework(info(&["plain"])).await?;
        let rest = p.offer(&mut plain).await?;
        p.call(&plain, "DECLINE", decline(&[rest], 3600.0)).await?;
        p.quiet(&mut framework).await?;
        p.call(&framework, "DECLINE", decline(&[half], 3600.0)).await?;
        let again = p.offers_quietly(&mut plain, 1).await?;
        p.note("what the limited role declined", &amounts(&again));
        set(p, role, json!({}), json!({})).await?;
        p.call(&framework, "TEARDOWN", json!({})).await?;
        p.call(&plain, "TEARDOWN", json!({})).await?;
        p.closed(&mut plain).await?;
    }
    Ok(())
}

// M118
async fn a_guarantee_is_given_finely(p: &mut Player) -> Result<()> {
    let amounts = json!({ "cpus": 0.5, "mem": 200.0 });
    set(p, "q3", amounts.clone(), amounts).await?;
    let mut framework = p.framework(info(&["q3"])).await?;
    p.offer(&mut framework).await?;
    let mut plain = p.framework(info(&["plain"])).await?;
    p.offer(&mut plain).await?;
    p.quiet(&mut framework).await?;
    set(p, "q3", json!({}), json!({})).await
}

// M120
async fn reservations_consume_quota(p: &mut Player) -> Result<()> {
    let agent = super::reservations::the_agent(p).await?;
    let reserved = super::reservations::reserved("q4", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    super::reservations::reserve(p, &agent, &reserved).await?;
    set(p, "q4", json!({}), json!({ "cpus": 2.0, "mem": 1024.0 })).await?;
    let mut plain = p.framework(info(&["plain"])).await?;
    let rest = p.offer(&mut plain).await?;
    p.call(&plain, "DECLINE", decline(&[rest], 3600.0)).await?;
    let mut framework = p.framework(info(&["q4"])).await?;
    p.offer(&mut framework).await?;
    p.quiet(&mut plain).await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.closed(&mut framework).await?;
    set(p, "q4", json!({}), json!({})).await?;
    super::reservations::unreserve(p, &agent, &reserved).await
}

// M121
async fn reservations_are_no_headroom(p: &mut Player) -> Result<()> {
    let agent = super::reservations::the_agent(p).await?;
    let part = super::reservations::reserved("a", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    super::reservations::reserve(p, &agent, &part).await?;
    set(p, "q6", json!({ "cpus": 2.5, "mem": 3000.0 }), json!({})).await?;
    let mut reserving = p.framework(info(&["a"])).await?;
    p.offer(&mut reserving).await?;
    let mut plain = p.framework(info(&["plain"])).await?;
    p.quiet(&mut plain).await?;
    p.call(&reserving, "TEARDOWN", json!({})).await?;
    p.closed(&mut reserving).await?;
    p.offer(&mut plain).await?;
    let mut guaranteed = p.framework(info(&["q6"])).await?;
    p.offer(&mut guaranteed).await?;
    p.call(&plain, "TEARDOWN", json!({})).await?;
    p.call(&guaranteed, "TEARDOWN", json!({})).await?;
    p.closed(&mut guaranteed).await?;
    set(p, "q6", json!({}), json!({})).await?;
    super::reservations::unreserve(p, &agent, &part).await
}

// M122
async fn only_roles_at_the_top_have_quota(p: &mut Player) -> Result<()> {
    let agent = super::reservations::the_agent(p).await?;
    let part = super::reservations::reserved("q7/below", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    super::reservations::reserve(p, &agent, &part).await?;
    set(p, "q7", json!({}), json!({ "cpus": 2.0, "mem": 1024.0 })).await?;
    let mut above = p.framework(info(&["q7"])).await?;
    let offer = p.offer(&mut above).await?;
    p.call(&above, "DECLINE", decline(&[offer], 3600.0)).await?;
    let mut below = p.framework(info(&["q7/below"])).await?;
    p.offer(&mut below).await?;
    p.call(&below, "TEARDOWN", json!({})).await?;
    p.closed(&mut below).await?;
    set(p, "q7", json!({}), json!({})).await?;
    super::reservations::unreserve(p, &agent, &part).await
}

// M123
async fn one_limit_reached_leaves_the_others(p: &mut Player) -> Result<()> {
    set(p, "q8", json!({}), json!({ "cpus": 4.0, "mem": 1024.0 })).await?;
    let mut framework = p.framework(info(&["q8"])).await?;
    let offer = p.offer(&mut framework).await?;
    let resources = json!([scalar("cpus", 0.9), scalar("mem", 992.0)]);
    let task = with(p.task(&offer, "t", "t"), "resources", resources);
    p.call(&framework, "ACCEPT", crate::framework::accept_at_once(&offer, &[launch(&[task])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.offer(&mut framework).await?;
    set(p, "q8", json!({}), json!({})).await
}

async fn bad_quota_is_refused(p: &mut Player) -> Result<()> {
    for (role, guarantees, limits) in [
        ("q5/below", json!({ "cpus": 1.0 }), json!({})),
        ("/q5", json!({ "cpus": 1.0 }), json!({})),
        ("", json!({ "cpus": 1.0 }), json!({})),
        ("q5", json!({ "cpus": -1.0 }), json!({})),
        ("q5", json!({ "cpus": 2.0 }), json!({ "cpus": 1.0 })),
        ("q5", json!({ "cpus": 4000.0 }), json!({})),
        (".", json!({}), json!({ "cpus": 1.0 })),
        ("q5", json!({}), json!({ "cpus": -1.0 })),
        ("q5", json!({}), json!({ "cpus": 1e13 })),
        ("q5", json!({}), json!({ "mem": 1e13 })),
        ("q5", json!({ "cpus": 1e13 }), json!({})),
    ] {
        set(p, role, guarantees, limits).await?;
    }
    note_quota(p).await
}
