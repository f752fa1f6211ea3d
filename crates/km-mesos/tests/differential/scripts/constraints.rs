//! Offer constraints: which agents' offers a role takes.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{again, info},
    player::{Player, without_the_patterns_fault},
};

/// Needs two agents, that differ by the attribute `rack`.
pub const CONSTRAINTS: &[Script] = scripts![
    attributes_are_judged,
    groups_are_alternatives_of_constraints_together,
    every_role_has_its_own,
    no_constraints_exclude_nothing,
    bad_patterns_are_refused,
    bad_constraints_are_refused,
    constraints_may_change,
];

fn attribute(name: &str, predicate: &Value) -> Value {
    json!({ "selector": { "attribute_name": name }, "predicate": predicate })
}

fn text(kind: &str, value: &str) -> Value {
    let field = if kind.ends_with("matches") { "regex" } else { "value" };
    json!({ kind: { field: value } })
}

/// Of role `a`, each group a list.
fn groups(groups: &[&[Value]]) -> Value {
    let groups: Vec<Value> = groups.iter().map(|group| json!({ "attribute_constraints": group })).collect();
    json!({ "role_constraints": { "a": { "groups": groups } } })
}

/// Records which agents are offered under these constraints.
async fn judge(p: &mut Player, what: &str, constraints: Value) -> Result<()> {
    let subscribe = json!({ "framework_info": info(&["a"]), "offer_constraints": constraints });
    let mut framework = p.subscribed(subscribe).await?;
    let waiting = p.until_now(&mut framework).await?;
    let (offers, others): (Vec<Value>, Vec<Value>) = waiting.into_iter().partition(|event| event["type"] == "OFFERS");
    let mut agents: Vec<Value> = offers
        .iter()
        .flat_map(|event| event["offers"]["offers"].as_array().into_iter().flatten())
        .map(|offer| offer["attributes"][0].clone())
        .collect();
    agents.sort_by_key(Value::to_string);
    p.note(what, &agents.into());
    p.note("others", &others.into());
    p.call(&framework, "TEARDOWN", json!({})).await?;
    Ok(())
}

// M077 to M083
async fn attributes_are_judged(p: &mut Player) -> Result<()> {
    let exists = json!({ "exists": {} });
    let not_exists = json!({ "not_exists": {} });
    let mut cases = Vec::new();
    for name in ["bar", "nope", "num"] {
        cases.push((name, exists.clone()));
        cases.push((name, not_exists.clone()));
    }
    for kind in ["text_equals", "text_not_equals", "text_matches", "text_not_matches"] {
        cases.extend([
            ("rack", text(kind, "r0")),
            ("bar", text(kind, "zab")),
            ("bar", text(kind, "ba")),
            ("nope", text(kind, "baz")),
            ("num", text(kind, "123")),
            ("span", text(kind, "x")),
            ("dup", text(kind, "foo")),
            ("dup", text(kind, "baz")),
        ]);
    }
    cases.extend([("rack", text("text_matches", "r[1-9]")), ("rack", text("text_not_matches", "r[1-9]"))]);
    for (name, predicate) in cases {
        judge(p, &format!("{name} {predicate}"), groups(&[&[attribute(name, &predicate)]])).await?;
    }
    let hostname =
        json!({ "selector": { "pseudoattribute_type": "HOSTNAME" }, "predicate": text("text_equals", "127.0.0.1") });
    judge(p, "hostname", groups(&[&[hostname]])).await?;
    for kind in ["REGION", "ZONE"] {
        let constraint = json!({ "selector": { "pseudoattribute_type": kind }, "predicate": exists });
        judge(p, kind, groups(&[&[constraint]])).await?;
    }
    Ok(())
}

// M084, M085
async fn groups_are_alternatives_of_constraints_together(p: &mut Player) -> Result<()> {
    let first = attribute("rack", &text("text_equals", "r0"));
    let second = attribute("rack", &text("text_equals", "r1"));
    let bar = attribute("bar", &json!({ "exists": {} }));
    judge(p, "and", groups(&[&[first.clone(), bar.clone()]])).await?;
    judge(p, "and neither", groups(&[&[first.clone(), second.clone()]])).await?;
    judge(p, "or", groups(&[std::slice::from_ref(&first), &[second]])).await?;
    judge(p, "or neither", groups(&[&[attribute("nope", &json!({ "exists": {} }))], &[first]])).await
}

// M086
async fn every_role_has_its_own(p: &mut Player) -> Result<()> {
    let rack =
        |value| json!({ "groups": [{ "attribute_constraints": [attribute("rack", &text("text_equals", value))] }] });
    let constraints = json!({ "role_constraints": { "a": rack("r0"), "b": rack("r1") } });
    let subscribe = json!({ "framework_info": info(&["a", "b"]), "offer_constraints": constraints });
    let mut framework = p.subscribed(subscribe).await?;
    p.offers(&mut framework, 2).await?;
    p.quiet(&mut framework).await
}

// M087
async fn no_constraints_exclude_nothing(p: &mut Player) -> Result<()> {
    judge(p, "empty", json!({})).await?;
    judge(p, "no roles", json!({ "role_constraints": {} })).await?;
    Ok(())
}

/// Records what SUBSCRIBE and UPDATE_FRAMEWORK say to these constraints.
async fn refused(p: &mut Player, constraints: &Value) -> Result<()> {
    let subscribe = json!({ "framework_info": info(&["a"]), "offer_constraints": constraints });
    let mut framework = p.subscribe(subscribe).await?;
    let event = framework.stream.event().await?;
    p.note("event type", &event["type"]);
    let message = event["error"]["message"].as_str().unwrap_or_default();
    p.note("error", &without_the_patterns_fault(message).unwrap_or(message).into());
    let framework = p.framework(info(&["a"])).await?;
    let body = json!({ "framework_info": again(info(&["a"]), &framework), "offer_constraints": constraints });
    p.call(&framework, "UPDATE_FRAMEWORK", json!({ "update_framework": body })).await?;
    Ok(())
}

// M088, M089
async fn bad_patterns_are_refused(p: &mut Player) -> Result<()> {
    for kind in ["text_matches", "text_not_matches"] {
        for pattern in ["[", "a**", "(a+){10}", "(?=x)", r"\1"] {
            refused(p, &groups(&[&[attribute("bar", &text(kind, pattern))]])).await?;
        }
    }
    Ok(())
}

async fn bad_constraints_are_refused(p: &mut Player) -> Result<()> {
    let exists = json!({ "exists": {} });
    refused(p, &json!({ "role_constraints": { "a": { "groups": [] } } })).await?;
    refused(p, &groups(&[&[]])).await?;
    refused(p, &groups(&[&[json!({ "selector": {}, "predicate": exists })]])).await?;
    refused(p, &groups(&[&[attribute("bar", &json!({}))]])).await?;
    let unknown = json!({ "selector": { "pseudoattribute_type": "UNKNOWN" }, "predicate": exists });
    refused(p, &groups(&[&[unknown]])).await?;
    let foreign = json!({ "role_constraints": { "b": { "groups": [{ "attribute_constraints": [attribute("bar", &exists)] }] } } });
    refused(p, &foreign).await
}

// M051
async fn constraints_may_change(p: &mut Player) -> Result<()> {
    let excluding = groups(&[&[attribute("rack", &text("text_equals", "none"))]]);
    let matching = groups(&[&[attribute("rack", &text("text_equals", "r1"))]]);
    let subscribe = json!({ "framework_info": info(&["a"]), "offer_constraints": excluding });
    let mut framework = p.subscribed(subscribe).await?;
    p.quiet(&mut framework).await?;
    let body = json!({ "framework_info": again(info(&["a"]), &framework), "offer_constraints": matching });
    p.call(&framework, "UPDATE_FRAMEWORK", json!({ "update_framework": body })).await?;
    p.offer(&mut framework).await?;
    p.quiet(&mut framework).await?;
    let shown = p.framework_state(&framework).await?;
    p.note("state", &shown["offer_constraints"]);
    let frameworks = p.ask(json!({ "type": "GET_FRAMEWORKS" })).await?;
    p.note("GET_FRAMEWORKS", &frameworks["get_frameworks"]["frameworks"][0]["offer_constraints"]);
    let frameworks = p.state("/frameworks").await?;
    p.note("frameworks", &frameworks["frameworks"][0]["offer_constraints"]);
    Ok(())
}
