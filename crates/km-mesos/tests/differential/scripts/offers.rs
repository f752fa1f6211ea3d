//! Offers: who gets them, and what declining, suppressing and reviving do.

use anyhow::Result;
use serde_json::json;

use crate::{
    compare::{Script, scripts},
    framework::{accept, amounts, decline, filters, info, launch, scalar, with},
    player::Player,
};

/// Needs one agent.
pub const OFFERS: &[Script] = scripts![
    what_a_task_leaves_is_offered_to_others,
    a_gone_frameworks_resources_are_offered_to_others,
    a_finished_tasks_resources_are_offered_again,
    an_unused_offer_of_a_stopped_framework_goes_to_others,
    resources_of_an_invalid_task_go_to_others,
    an_offer_declined_without_filter_comes_back,
    revive_clears_filters,
    suppress_stops_offers_until_revive,
    a_framework_subscribed_as_suppressed_gets_no_offers,
    revive_of_one_role_leaves_the_others_filters,
    a_filter_ends,
    the_state_shows_offers,
    requests_are_ignored,
    reviving_or_suppressing_foreign_roles_is_harmless,
    declining_unknown_offers_is_harmless,
    filters_out_of_range_are_corrected,
    an_accepted_offer_leaves_a_filter,
];

/// Needs two agents.
pub const OFFERS_OF_TWO_AGENTS: &[Script] = scripts![every_agent_is_offered_whole, roles_share_the_agents];

// M052
async fn every_agent_is_offered_whole(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    p.offers(&mut framework, 2).await?;
    p.quiet(&mut framework).await
}

// M072
async fn roles_share_the_agents(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a", "b"])).await?;
    let offers = p.offers_quietly(&mut framework, 2).await?;
    let mut roles: Vec<String> = offers.iter().map(|offer| offer["allocation_info"]["role"].to_string()).collect();
    roles.sort();
    p.note("roles", &roles.into());
    Ok(())
}

// M053
async fn what_a_task_leaves_is_offered_to_others(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut second = p.framework(info(&["*"])).await?;
    p.quiet(&mut second).await?;
    p.running(&mut first, &offer, "t").await?;
    p.offer(&mut second).await?;
    Ok(())
}

// M055
async fn a_gone_frameworks_resources_are_offered_to_others(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    p.running(&mut first, &offer, "t").await?;
    let mut second = p.framework(info(&["*"])).await?;
    let rest = p.offer(&mut second).await?;
    p.call(&first, "TEARDOWN", json!({})).await?;
    p.offer(&mut second).await?;
    p.call(&second, "DECLINE", decline(&[rest], 3600.0)).await?;
    Ok(())
}

// M057
async fn a_finished_tasks_resources_are_offered_again(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M061
async fn an_unused_offer_of_a_stopped_framework_goes_to_others(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    p.offer(&mut first).await?;
    let mut second = p.framework(info(&["*"])).await?;
    p.quiet(&mut second).await?;
    p.call(&first, "TEARDOWN", json!({})).await?;
    p.offer(&mut second).await?;
    Ok(())
}

// M062
async fn resources_of_an_invalid_task_go_to_others(p: &mut Player) -> Result<()> {
    let mut first = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut first).await?;
    let mut second = p.framework(info(&["*"])).await?;
    let of = |cpus| json!([scalar("cpus", cpus), scalar("mem", 1.0)]);
    let tasks = [-1.0, 0.000_01].map(|cpus| with(p.task(&offer, &cpus.to_string(), "e"), "resources", of(cpus)));
    p.call(&first, "ACCEPT", accept(&[offer], &[launch(&tasks)])).await?;
    p.expect(&mut first, "UPDATE").await?;
    p.expect(&mut first, "UPDATE").await?;
    p.offer(&mut second).await?;
    Ok(())
}

// M063
async fn an_offer_declined_without_filter_comes_back(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 0.0)).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M064
async fn revive_clears_filters(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 3600.0)).await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M065
async fn suppress_stops_offers_until_revive(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 0.01)).await?;
    p.call(&framework, "SUPPRESS", json!({})).await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.offer(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    p.quiet(&mut framework).await
}

// M066
async fn a_framework_subscribed_as_suppressed_gets_no_offers(p: &mut Player) -> Result<()> {
    let subscribe = json!({ "framework_info": info(&["a", "b"]), "suppressed_roles": ["a", "b"] });
    let mut framework = p.subscribed(subscribe).await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({ "revive": { "roles": ["a"] } })).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M068
async fn revive_of_one_role_leaves_the_others_filters(p: &mut Player) -> Result<()> {
    let subscribe = json!({ "framework_info": info(&["a", "b"]), "suppressed_roles": ["a"] });
    let mut framework = p.subscribed(subscribe).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 3600.0)).await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({ "revive": { "roles": ["a"] } })).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 3600.0)).await?;
    p.quiet(&mut framework).await
}

// M070
async fn a_filter_ends(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 1.0)).await?;
    p.quiet(&mut framework).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M073
async fn the_state_shows_offers(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    p.offer(&mut framework).await?;
    let shown = p.framework_state(&framework).await?;
    p.note("offers", &shown["offers"]);
    p.note("offered_resources", &shown["offered_resources"]);
    p.note("used_resources", &shown["used_resources"]);
    p.note("resources", &shown["resources"]);
    Ok(())
}

// M076
async fn requests_are_ignored(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    p.offer(&mut framework).await?;
    let request = json!({ "requests": [{ "resources": [scalar("cpus", 1.0)] }] });
    p.call(&framework, "REQUEST", json!({ "request": request })).await?;
    p.quiet(&mut framework).await
}

async fn reviving_or_suppressing_foreign_roles_is_harmless(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 3600.0)).await?;
    for role in ["b", "/bad"] {
        p.call(&framework, "REVIVE", json!({ "revive": { "roles": [role] } })).await?;
        p.call(&framework, "SUPPRESS", json!({ "suppress": { "roles": [role] } })).await?;
    }
    p.quiet(&mut framework).await?;
    // One foreign role is enough: the call is dropped.
    p.call(&framework, "REVIVE", json!({ "revive": { "roles": ["b", "a"] } })).await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({ "revive": { "roles": ["a"] } })).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

async fn declining_unknown_offers_is_harmless(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let unknown = json!([{ "value": "nothing" }]);
    p.call(&framework, "DECLINE", json!({ "decline": { "offer_ids": unknown } })).await?;
    p.call(&framework, "DECLINE", decline(&[offer.clone(), offer.clone()], 0.0)).await?;
    p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 0.0)).await?;
    p.quiet(&mut framework).await
}

async fn filters_out_of_range_are_corrected(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    for seconds in [-1.0, 1e12] {
        let offer = p.offer(&mut framework).await?;
        p.call(&framework, "DECLINE", decline(&[offer], seconds)).await?;
        p.quiet(&mut framework).await?;
        p.call(&framework, "REVIVE", json!({})).await?;
    }
    p.offer(&mut framework).await?;
    Ok(())
}

async fn an_accepted_offer_leaves_a_filter(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "ACCEPT", accept(&[offer], &[])).await?;
    p.quiet(&mut framework).await?;
    p.call(&framework, "REVIVE", json!({})).await?;
    let offer = p.offer(&mut framework).await?;
    let body =
        json!({ "accept": { "offer_ids": [offer["id"]], "operations": [launch(&[])], "filters": filters(0.0) } });
    p.call(&framework, "ACCEPT", body).await?;
    let again = p.offers_quietly(&mut framework, 1).await?;
    p.note("again", &amounts(&again));
    Ok(())
}
