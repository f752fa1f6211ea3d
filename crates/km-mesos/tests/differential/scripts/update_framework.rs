//! UPDATE_FRAMEWORK: what may change, and what changes with it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, again, decline, info, with},
    player::{OPERATOR, Player},
    stream::Stream,
};

/// Needs one agent.
pub const UPDATE_FRAMEWORK: &[Script] = scripts![
    user_principal_and_checkpoint_stay,
    everything_else_may_change,
    an_update_that_changes_nothing_is_not_announced,
    an_added_role_gets_offers,
    offers_of_removed_roles_are_rescinded,
    a_role_added_as_suppressed_gets_no_offers,
    a_role_removed_and_no_longer_suppressed_gets_no_offers,
    ending_suppression_clears_filters,
    bad_information_is_refused,
];

async fn update(p: &mut Player, framework: &Framework, information: Value, suppressed: &[&str]) -> Result<()> {
    let body = json!({ "framework_info": again(information, framework), "suppressed_roles": suppressed });
    p.call(framework, "UPDATE_FRAMEWORK", json!({ "update_framework": body })).await?;
    Ok(())
}

async fn note_framework(p: &mut Player) -> Result<()> {
    let frameworks = p.ask(json!({ "type": "GET_FRAMEWORKS" })).await?;
    for framework in frameworks["get_frameworks"]["frameworks"].as_array().into_iter().flatten() {
        for part in ["framework_info", "active", "connected", "offer_constraints"] {
            p.note(part, &framework[part]);
        }
    }
    Ok(())
}

// M040, M041, M042
async fn user_principal_and_checkpoint_stay(p: &mut Player) -> Result<()> {
    let framework = p.framework(info(&["*"])).await?;
    for (field, value) in [("user", json!("nobody")), ("principal", json!("new")), ("checkpoint", json!(true))] {
        let information = with(with(info(&["*"]), "name", "renamed".into()), field, value);
        update(p, &framework, information, &[]).await?;
        note_framework(p).await?;
    }
    Ok(())
}

// M043
async fn everything_else_may_change(p: &mut Player) -> Result<()> {
    let framework = p.framework(info(&["*"])).await?;
    let mut events = operator_events(p).await?;
    let mut information = info(&["a", "b"]);
    for (field, value) in [
        ("name", json!("renamed")),
        ("failover_timeout", json!(7200.5)),
        ("hostname", json!("elsewhere")),
        ("webui_url", json!("http://here")),
        ("capabilities", json!([{ "type": "MULTI_ROLE" }, { "type": "TASK_KILLING_STATE" }])),
        ("labels", json!({ "labels": [{ "key": "k", "value": "v" }] })),
        ("offer_filters", json!({ "a": { "min_allocatable_resources": {} } })),
    ] {
        information = with(information, field, value);
    }
    update(p, &framework, information, &[]).await?;
    let event = events.event().await?;
    p.note("event", &event);
    note_framework(p).await
}

/// The operator's stream, its first event taken.
async fn operator_events(p: &mut Player) -> Result<Stream> {
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
    let response = p.send("POST", OPERATOR, &headers, r#"{"type":"SUBSCRIBE"}"#).await?;
    p.note_head("operator SUBSCRIBE", &response);
    let mut events = Stream::read(response);
    let first = events.event().await?;
    p.note("first", &first["type"]);
    Ok(events)
}

// M044
async fn an_update_that_changes_nothing_is_not_announced(p: &mut Player) -> Result<()> {
    let framework = p.framework(info(&["*"])).await?;
    let mut events = operator_events(p).await?;
    update(p, &framework, info(&["*"]), &[]).await?;
    update(p, &framework, with(info(&["*"]), "name", "renamed".into()), &[]).await?;
    let event = events.event().await?;
    p.note("event", &event);
    p.passes().await?;
    p.note("more", &events.waiting().into());
    Ok(())
}

// M045
async fn an_added_role_gets_offers(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&[])).await?;
    p.quiet(&mut framework).await?;
    update(p, &framework, info(&["a"]), &[]).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M046
async fn offers_of_removed_roles_are_rescinded(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    p.offer(&mut framework).await?;
    update(p, &framework, info(&[]), &[]).await?;
    p.expect(&mut framework, "RESCIND").await?;
    p.quiet(&mut framework).await
}

// M047
async fn a_role_added_as_suppressed_gets_no_offers(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&[])).await?;
    update(p, &framework, info(&["a"]), &["a"]).await?;
    p.quiet(&mut framework).await
}

// M048
async fn a_role_removed_and_no_longer_suppressed_gets_no_offers(p: &mut Player) -> Result<()> {
    let subscribe = json!({ "framework_info": info(&["a"]), "suppressed_roles": ["a"] });
    let mut framework = p.subscribed(subscribe).await?;
    update(p, &framework, info(&[]), &[]).await?;
    p.quiet(&mut framework).await
}

// M050
async fn ending_suppression_clears_filters(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "DECLINE", decline(&[offer], 3600.0)).await?;
    update(p, &framework, info(&["a"]), &["a"]).await?;
    p.quiet(&mut framework).await?;
    update(p, &framework, info(&["a"]), &[]).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

async fn bad_information_is_refused(p: &mut Player) -> Result<()> {
    let framework = p.framework(info(&["a"])).await?;
    update(p, &framework, info(&["/a"]), &[]).await?;
    update(p, &framework, info(&["a", "a"]), &[]).await?;
    update(p, &framework, info(&["a"]), &["b"]).await?;
    update(p, &framework, with(info(&["a"]), "failover_timeout", 1e12.into()), &[]).await?;
    note_framework(p).await
}
