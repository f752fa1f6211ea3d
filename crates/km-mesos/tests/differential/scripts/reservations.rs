//! Reservations made by the operator, and the least that is worth an offer.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{accept, amounts, decline, filters, info, launch, scalar, with},
    player::Player,
};

/// Needs one agent.
pub const RESERVATIONS: &[Script] = scripts![
    reservations_go_to_their_role_and_those_below,
    reserving_what_is_offered_rescinds_the_offer,
    little_remainders_are_offered_to_those_who_want_them,
    offers_of_one_agent_may_be_joined,
    equal_frameworks_take_turns,
    new_weights_rescind_offers,
];

/// The only agent's id.
pub async fn the_agent(p: &mut Player) -> Result<Value> {
    let shown = p.ask(json!({ "type": "GET_AGENTS" })).await?;
    let agents = shown["get_agents"]["agents"].as_array().context("there are agents")?;
    Ok(agents[0]["agent_info"]["id"].clone())
}

/// These resources as the operator reserves them for a role.
pub fn reserved(role: &str, resources: &[Value]) -> Value {
    let reservation = json!([{ "type": "DYNAMIC", "role": role }]);
    resources.iter().map(|resource| with(resource.clone(), "reservations", reservation.clone())).collect()
}

/// Reserves.
pub async fn reserve(p: &mut Player, agent: &Value, resources: &Value) -> Result<()> {
    let body = json!({ "agent_id": agent, "resources": resources });
    p.operator(json!({ "type": "RESERVE_RESOURCES", "reserve_resources": body })).await?;
    Ok(())
}

/// Takes it back.
pub async fn unreserve(p: &mut Player, agent: &Value, resources: &Value) -> Result<()> {
    let body = json!({ "agent_id": agent, "resources": resources });
    p.operator(json!({ "type": "UNRESERVE_RESOURCES", "unreserve_resources": body })).await?;
    Ok(())
}

/// With the capability to read `reservations`.
fn refined(roles: &[&str]) -> Value {
    let capabilities = ["MULTI_ROLE", "RESERVATION_REFINEMENT"].map(|name| json!({ "type": name }));
    with(info(roles), "capabilities", capabilities.to_vec().into())
}

// M107, M108
async fn reservations_go_to_their_role_and_those_below(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let part = reserved("a", &[scalar("cpus", 1.0), scalar("mem", 512.0)]);
    reserve(p, &agent, &part).await?;
    let mut other = p.framework(info(&["b"])).await?;
    p.offer(&mut other).await?;
    let mut below = p.framework(refined(&["a/c/d"])).await?;
    let offer = p.offer(&mut below).await?;
    p.call(&below, "DECLINE", decline(&[offer], 3600.0)).await?;
    let mut plain = p.framework(info(&["a"])).await?;
    p.offer(&mut plain).await?;
    p.call(&plain, "TEARDOWN", json!({})).await?;
    p.closed(&mut plain).await?;
    unreserve(p, &agent, &part).await
}

// M109
async fn reserving_what_is_offered_rescinds_the_offer(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let mut framework = p.framework(info(&["a"])).await?;
    p.offer(&mut framework).await?;
    let part = reserved("a", &[scalar("cpus", 1.0)]);
    reserve(p, &agent, &part).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.offer(&mut framework).await?;
    reserve(p, &agent, &reserved("a", &[scalar("cpus", 100.0)])).await?;
    reserve(p, &json!({ "value": "nowhere" }), &part).await?;
    p.call(&framework, "TEARDOWN", json!({})).await?;
    p.closed(&mut framework).await?;
    unreserve(p, &agent, &part).await
}

fn with_least(role: &str, least: Value) -> Value {
    let quantities: Vec<Value> = match least {
        Value::Null => Vec::new(),
        least => vec![json!({ "quantities": least })],
    };
    with(info(&[role]), "offer_filters", json!({ role: { "min_allocatable_resources": { "quantities": quantities } } }))
}

// M110, M112, M113
async fn little_remainders_are_offered_to_those_who_want_them(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut first).await?;
    // Nearly all; the executor takes the rest but for 20 MB.
    let most = json!([scalar("cpus", 3.9), scalar("mem", 4044.0)]);
    let task = with(p.task(&offer, "t", "t"), "resources", most);
    p.call(&first, "ACCEPT", accept(&[offer], &[launch(&[task])])).await?;
    let mut executor = p.executor(&first, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    let mut modest = p.framework(info(&["b"])).await?;
    p.quiet(&mut modest).await?;
    for least in [json!({ "mem": { "value": 21.0 } }), json!({ "mem": { "value": 20.0 } })] {
        let body = json!({ "framework_info": with(with_least("b", least), "id", json!({ "value": modest.id })) });
        p.call(&modest, "UPDATE_FRAMEWORK", json!({ "update_framework": body })).await?;
        p.passes().await?;
    }
    let rest = p.offer(&mut modest).await?;
    p.call(&modest, "DECLINE", decline(&[rest], 3600.0)).await?;
    let mut modest = p.framework(with_least("c", Value::Null)).await?;
    p.offer(&mut modest).await?;
    Ok(())
}

// M060
async fn offers_of_one_agent_may_be_joined(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    let half = json!([scalar("cpus", 2.0), scalar("mem", 2048.0)]);
    let task = with(p.task(&offer, "first", "e"), "resources", half);
    let body = json!({ "accept": {
        "offer_ids": [offer["id"]], "operations": [launch(&[task])], "filters": filters(0.0),
    } });
    p.call(&framework, "ACCEPT", body).await?;
    let mut executor = p.executor(&framework, "e").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    let rest = p.offers_quietly(&mut framework, 1).await?.remove(0);
    p.note("rest", &amounts(std::slice::from_ref(&rest)));
    p.passes_on(&mut executor, &mut framework, "first", "TASK_FINISHED").await?;
    let freed = p.offer(&mut framework).await?;
    let most = json!([scalar("cpus", 3.5), scalar("mem", 3072.0)]);
    let task = with(p.task(&freed, "second", "e"), "resources", most);
    p.call(&framework, "ACCEPT", accept(&[rest, freed], &[launch(&[task])])).await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "second", "TASK_RUNNING").await?;
    p.quiet(&mut framework).await
}

// M094
async fn equal_frameworks_take_turns(p: &mut Player) -> Result<()> {
    let mut both = Vec::new();
    for name in ["first", "second"] {
        both.push((name, p.framework(info(&["a"])).await?));
    }
    for _ in 0..6 {
        let offer = super::shares::winner(p, &mut both).await?;
        let winner =
            both.iter().find(|(_, framework)| Some(framework.id.as_str()) == offer["framework_id"]["value"].as_str());
        let (_, framework) = winner.context("one of them")?;
        p.call(framework, "DECLINE", decline(&[offer], 0.0)).await?;
    }
    Ok(())
}

// M106
async fn new_weights_rescind_offers(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    p.offer(&mut framework).await?;
    let infos = json!({ "weight_infos": [{ "role": "unused", "weight": 2.0 }] });
    p.operator(json!({ "type": "UPDATE_WEIGHTS", "update_weights": infos })).await?;
    p.quiet(&mut framework).await?;
    let infos = json!({ "weight_infos": [{ "role": "a", "weight": 2.0 }] });
    p.operator(json!({ "type": "UPDATE_WEIGHTS", "update_weights": infos })).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.offer(&mut framework).await?;
    p.operator(
        json!({ "type": "UPDATE_WEIGHTS", "update_weights": { "weight_infos": [{ "role": "a", "weight": 1.0 }] } }),
    )
    .await?;
    Ok(())
}
