//! The maintenance schedule, inverse offers, and machines that are down.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    framework::{Framework, filters, info},
    player::Player,
};

/// Needs two agents.
pub const MAINTENANCE: &[Script] = scripts![
    schedules_are_checked,
    machines_must_be_scheduled_to_go_down,
    a_schedule_is_told_with_offers_and_inverse_offers,
    inverse_offers_are_answered,
    a_refused_inverse_offer_does_not_come_again,
    unknown_inverse_offers_are_ignored,
];

/// Needs one agent that may end; last, as it comes back as another.
pub const DOWN: &[Script] = scripts![agents_of_a_machine_that_is_down_end];

/// The machine that all agents are on.
fn here() -> Value {
    json!({ "hostname": "127.0.0.1", "ip": "127.0.0.1" })
}

/// Machines that no agent is on.
fn elsewhere(name: &str) -> Value {
    json!({ "hostname": name })
}

fn window(machines: &[&Value], start: f64, duration: Option<f64>) -> Value {
    let nanoseconds = |seconds: f64| json!({ "nanoseconds": seconds * 1e9 });
    let mut unavailability = json!({ "start": nanoseconds(start) });
    if let Some(duration) = duration {
        unavailability["duration"] = nanoseconds(duration);
    }
    json!({ "machine_ids": machines, "unavailability": unavailability })
}

async fn update(p: &mut Player, windows: &[Value]) -> Result<()> {
    let body = json!({ "schedule": { "windows": windows } });
    p.operator(json!({ "type": "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule": body })).await?;
    Ok(())
}

/// Schedules windows with these machines, so many seconds long.
pub async fn schedule(p: &mut Player, windows: &[&[&Value]], duration: f64) -> Result<()> {
    let windows: Vec<Value> = windows.iter().map(|machines| window(machines, 2e9, Some(duration))).collect();
    update(p, &windows).await
}

async fn read(p: &mut Player) -> Result<()> {
    p.operator(json!({ "type": "GET_MAINTENANCE_SCHEDULE" })).await?;
    p.operator(json!({ "type": "GET_MAINTENANCE_STATUS" })).await?;
    for path in ["/maintenance/schedule", "/maintenance/status"] {
        p.request("GET", path, &[], "").await?;
    }
    Ok(())
}

async fn down(p: &mut Player, machines: &[&Value]) -> Result<()> {
    p.operator(json!({ "type": "START_MAINTENANCE", "start_maintenance": { "machines": machines } })).await?;
    Ok(())
}

async fn up(p: &mut Player, machines: &[&Value]) -> Result<()> {
    p.operator(json!({ "type": "STOP_MAINTENANCE", "stop_maintenance": { "machines": machines } })).await?;
    Ok(())
}

// M276
async fn schedules_are_checked(p: &mut Player) -> Result<()> {
    let (a, b) = (elsewhere("a"), elsewhere("b"));
    update(p, &[window(&[&a], 1e9, Some(5.0)), window(&[&b], -1e9, None)]).await?;
    read(p).await?;
    let bad = [
        window(&[], 1e9, Some(5.0)),
        window(&[&a], 1e9, Some(-5.0)),
        window(&[&json!({})], 1e9, Some(5.0)),
        window(&[&json!({ "hostname": "" })], 1e9, Some(5.0)),
        window(&[&json!({ "ip": "not an address" })], 1e9, Some(5.0)),
        window(&[&a, &a], 1e9, Some(5.0)),
        window(&[&json!({ "hostname": "A" }), &a], 1e9, Some(5.0)),
        json!({ "machine_ids": [a] }),
    ];
    for window in bad {
        update(p, &[window]).await?;
    }
    update(p, &[window(&[&a], 1e9, Some(5.0)), window(&[&a], 2e9, Some(5.0))]).await?;
    p.operator(json!({ "type": "UPDATE_MAINTENANCE_SCHEDULE" })).await?;
    read(p).await?;
    update(p, &[]).await?;
    read(p).await
}

// M277 to M280
async fn machines_must_be_scheduled_to_go_down(p: &mut Player) -> Result<()> {
    let (a, b, c) = (elsewhere("a"), elsewhere("b"), elsewhere("c"));
    schedule(p, &[&[&a], &[&b, &c]], 5.0).await?;
    let (unknown, nothing) = (elsewhere("x"), json!({}));
    for machines in [&[&unknown][..], &[], &[&nothing], &[&a, &unknown], &[&a, &a]] {
        down(p, machines).await?;
        up(p, machines).await?;
    }
    up(p, &[&a]).await?;
    down(p, &[&a, &b]).await?;
    read(p).await?;
    down(p, &[&a]).await?;
    down(p, &[&c, &a]).await?;
    up(p, &[&b]).await?;
    read(p).await?;
    // Machines that are down must stay in the schedule.
    update(p, &[]).await?;
    schedule(p, &[&[&c]], 5.0).await?;
    schedule(p, &[&[&a], &[&b]], 5.0).await?;
    up(p, &[&a]).await?;
    read(p).await?;
    update(p, &[]).await
}

/// A framework with a task on either agent, that refuses the rest for long.
async fn running_on_both(p: &mut Player) -> Result<Framework> {
    let mut framework = p.framework(info(&["*"])).await?;
    for (offer, task) in p.offers(&mut framework, 2).await?.iter().zip(["t", "u"]) {
        p.running(&mut framework, offer, task).await?;
    }
    Ok(framework)
}

/// The next inverse offers, by the agent, and all rescinded ones before them.
async fn inverse(p: &mut Player, framework: &mut Framework, count: usize) -> Result<Vec<Value>> {
    let mut rescinded = 0;
    while framework.stream.inverse.len() < count {
        match framework.stream.step().await? {
            Some(event) if event["type"] == "RESCIND_INVERSE_OFFER" => rescinded += 1,
            Some(event) => p.note("event", &event),
            None => {}
        }
    }
    let mut offers: Vec<Value> = framework.stream.inverse.drain(..count).collect();
    p.sort_by_agent(&mut offers);
    p.note("rescinded inverse offers", &rescinded.into());
    p.note("inverse offers", &json!(offers));
    Ok(offers)
}

async fn answer(p: &mut Player, framework: &Framework, accepted: bool, offers: &[Value], seconds: f64) -> Result<()> {
    let ids: Vec<&Value> = offers.iter().map(|offer| &offer["id"]).collect();
    let body = json!({ "inverse_offer_ids": ids, "filters": filters(seconds) });
    if accepted {
        p.call(framework, "ACCEPT_INVERSE_OFFERS", json!({ "accept_inverse_offers": body })).await?;
    } else {
        p.call(framework, "DECLINE_INVERSE_OFFERS", json!({ "decline_inverse_offers": body })).await?;
    }
    Ok(())
}

// M281, M285
async fn a_schedule_is_told_with_offers_and_inverse_offers(p: &mut Player) -> Result<()> {
    let mut framework = running_on_both(p).await?;
    let mut idle = p.framework(info(&["*"])).await?;
    // What the first framework has left it refuses for long.
    p.offers(&mut idle, 2).await?;
    schedule(p, &[&[&here()]], 60.0).await?;
    inverse(p, &mut framework, 2).await?;
    p.rescinded(&mut idle, 2).await?;
    p.offers(&mut idle, 2).await?;
    inverse(p, &mut idle, 2).await?;
    read(p).await?;
    let shown = p.framework_state(&framework).await?;
    p.note("offers", &shown["offers"]);
    schedule(p, &[], 0.0).await?;
    p.passes().await?;
    read(p).await
}

// M283
async fn inverse_offers_are_answered(p: &mut Player) -> Result<()> {
    let mut framework = running_on_both(p).await?;
    schedule(p, &[&[&here()]], 60.0).await?;
    for accepted in [false, true] {
        let offers = inverse(p, &mut framework, 2).await?;
        answer(p, &framework, accepted, &offers, 0.0).await?;
    }
    inverse(p, &mut framework, 2).await?;
    read(p).await?;
    schedule(p, &[], 0.0).await?;
    read(p).await
}

// M284
async fn a_refused_inverse_offer_does_not_come_again(p: &mut Player) -> Result<()> {
    let mut framework = running_on_both(p).await?;
    schedule(p, &[&[&here()]], 60.0).await?;
    let offers = inverse(p, &mut framework, 2).await?;
    answer(p, &framework, false, &offers[..1], 3600.0).await?;
    answer(p, &framework, true, &offers[1..], 0.0).await?;
    inverse(p, &mut framework, 1).await?;
    p.quiet(&mut framework).await?;
    read(p).await?;
    schedule(p, &[], 0.0).await
}

async fn unknown_inverse_offers_are_ignored(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    let body = json!({ "inverse_offer_ids": [{ "value": "unknown" }] });
    p.call(&framework, "ACCEPT_INVERSE_OFFERS", json!({ "accept_inverse_offers": body })).await?;
    p.call(&framework, "DECLINE_INVERSE_OFFERS", json!({ "decline_inverse_offers": body })).await?;
    p.offers(&mut framework, 2).await?;
    Ok(())
}

// M282
async fn agents_of_a_machine_that_is_down_end(p: &mut Player) -> Result<()> {
    p.agent("r0").await?;
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offer(&mut framework).await?;
    let mut executor = p.running(&mut framework, &offer, "t").await?;
    schedule(p, &[&[&here()]], 60.0).await?;
    inverse(p, &mut framework, 1).await?;
    down(p, &[&here()]).await?;
    p.executor_event(&mut executor, "SHUTDOWN").await?;
    p.expect(&mut framework, "FAILURE").await?;
    p.ended("agent-0").await?;
    read(p).await?;
    p.metrics(&["master/slaves_active", "master/slave_removals"]).await?;
    up(p, &[&here()]).await?;
    read(p).await?;
    p.start("agent-0").await?;
    p.agent("r0").await?;
    Ok(())
}
