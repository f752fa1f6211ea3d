//! Reservations that frameworks make, and what is refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::reservations::{reserve, the_agent, unreserve};
use crate::{
    compare::{Script, scripts},
    framework::{accept_at_once, amounts, decline, launch, scalar, with},
    operation::{for_role, operation, refined, volume},
    player::Player,
};

/// Needs one agent.
pub const OPERATIONS: &[Script] = scripts![
    bad_reservations_say_why,
    a_reservation_is_for_one_role,
    bad_operations_of_the_operator_say_why,
    what_cannot_be_unreserved_stays,
    what_is_reserved_may_be_unreserved,
    reservations_add_up,
    what_is_reserved_may_be_used_at_once,
    a_reservation_is_the_roles_not_the_frameworks,
    a_bad_operation_does_not_stop_the_others,
];

fn allocated(resource: Value, role: &str) -> Value {
    with(resource, "allocation_info", json!({ "role": role }))
}

fn reserved_as(resource: Value, kind: &str, role: &str, principal: Option<&str>) -> Value {
    let mut reservation = json!({ "type": kind, "role": role });
    if let Some(principal) = principal {
        reservation["principal"] = principal.into();
    }
    with(resource, "reservations", json!([reservation]))
}

// M159 to M163
async fn bad_reservations_say_why(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let cpu = || scalar("cpus", 1.0);
    let own = || for_role(cpu(), "a");
    let cases = [
        vec![for_role(cpu(), "b")],
        vec![allocated(for_role(cpu(), "b"), "b")],
        vec![reserved_as(cpu(), "DYNAMIC", "*", Some("owner"))],
        vec![reserved_as(cpu(), "DYNAMIC", "a", None)],
        vec![reserved_as(cpu(), "DYNAMIC", "a", Some("stranger"))],
        vec![reserved_as(cpu(), "STATIC", "a", None)],
        vec![cpu()],
        vec![volume("a", "id", 16.0)],
        vec![for_role(scalar("cpus", 100.0), "a")],
        vec![with(own(), "revocable", json!({}))],
    ];
    for resources in cases {
        p.operate_next(&mut framework, operation("RESERVE", &resources)).await?;
    }
    p.offer(&mut framework).await?;
    Ok(())
}

// M163
async fn a_reservation_is_for_one_role(p: &mut Player) -> Result<()> {
    let subscribe = json!({ "framework_info": refined(&["a", "c"]), "suppressed_roles": ["c"] });
    let mut framework = p.subscribed(subscribe).await?;
    let [cpus, mem] =
        [("cpus", "a"), ("mem", "c")].map(|(name, role)| allocated(for_role(scalar(name, 1.0), role), role));
    p.operate_next(&mut framework, operation("RESERVE", &[cpus, mem])).await
}

// M164
async fn bad_operations_of_the_operator_say_why(p: &mut Player) -> Result<()> {
    let agent = the_agent(p).await?;
    let part = reserved_as(scalar("cpus", 1.0), "DYNAMIC", "a", None);
    reserve(p, &agent, &json!([allocated(part.clone(), "a")])).await?;
    unreserve(p, &agent, &json!([part])).await
}

// M170
async fn what_cannot_be_unreserved_stays(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let cases = [
        reserved_as(scalar("cpus", 1.0), "STATIC", "a", None),
        scalar("cpus", 1.0),
        volume("a", "id", 16.0),
        for_role(scalar("cpus", 1.0), "a"),
    ];
    for resource in cases {
        p.operate_next(&mut framework, operation("UNRESERVE", &[resource])).await?;
    }
    Ok(())
}

// M171
async fn what_is_reserved_may_be_unreserved(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let part = [for_role(scalar("cpus", 1.0), "a"), for_role(scalar("mem", 128.0), "a")];
    for kind in ["RESERVE", "UNRESERVE"] {
        p.operate_next(&mut framework, operation(kind, &part)).await?;
        let offer = p.offer(&mut framework).await?;
        p.call(&framework, "DECLINE", decline(&[offer], 0.0)).await?;
    }
    Ok(())
}

// M172
async fn reservations_add_up(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let tenth = operation("RESERVE", &[for_role(scalar("cpus", 0.1), "a")]);
    for _ in 0..2 {
        p.operate_next(&mut framework, tenth.clone()).await?;
    }
    let offer = p.offer(&mut framework).await?;
    let both = operation("UNRESERVE", &[for_role(scalar("cpus", 0.2), "a")]);
    p.operate(&mut framework, &offer, both).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M173
async fn what_is_reserved_may_be_used_at_once(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    let part = [for_role(scalar("cpus", 0.5), "a"), for_role(scalar("mem", 64.0), "a")];
    let task = with(p.task(&offer, "t", "t"), "resources", part.to_vec().into());
    let body = accept_at_once(&offer, &[operation("RESERVE", &part), launch(&[task])]);
    p.call(&framework, "ACCEPT", body).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_RUNNING").await?;
    let rest = p.offer(&mut framework).await?;
    p.operate(&mut framework, &rest, operation("UNRESERVE", &part)).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    executor.exit(0)?;
    p.until("/slaves", |shown| shown["slaves"][0]["used_resources"]["cpus"].as_f64() == Some(0.0)).await?;
    unreserve_all(p).await
}

/// Lets the operator take back all dynamic reservations, of whoever.
pub async fn unreserve_all(p: &mut Player) -> Result<()> {
    let shown = p.state("/slaves").await?;
    for agent in shown["slaves"].as_array().into_iter().flatten() {
        let by_role = agent["reserved_resources_full"].as_object().cloned().unwrap_or_default();
        for resources in by_role.into_values() {
            let call = json!({ "agent_id": { "value": agent["id"] }, "resources": resources });
            p.ask(json!({ "type": "UNRESERVE_RESOURCES", "unreserve_resources": call })).await?;
        }
    }
    Ok(())
}

// M174
async fn a_reservation_is_the_roles_not_the_frameworks(p: &mut Player) -> Result<()> {
    let mut first = p.framework(refined(&["a"])).await?;
    let part = [for_role(scalar("cpus", 1.0), "a")];
    p.operate_next(&mut first, operation("RESERVE", &part)).await?;
    let offers = p.offers_quietly(&mut first, 1).await?;
    p.call(&first, "DECLINE", decline(&offers, 3600.0)).await?;
    let mut second = p.framework(refined(&["a"])).await?;
    let offer = p.offer(&mut second).await?;
    p.operate(&mut second, &offer, operation("UNRESERVE", &part)).await?;
    p.offer(&mut second).await?;
    Ok(())
}

// M175
async fn a_bad_operation_does_not_stop_the_others(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    let good = [for_role(scalar("mem", 64.0), "a")];
    let operations = [
        operation("RESERVE", &[for_role(scalar("cpus", 100.0), "a")]),
        operation("RESERVE", &[for_role(scalar("cpus", 1.0), "b")]),
        operation("RESERVE", &good),
        operation("UNRESERVE", &[for_role(scalar("mem", 128.0), "a")]),
    ];
    p.call(&framework, "ACCEPT", accept_at_once(&offer, &operations)).await?;
    let after = p.offer(&mut framework).await?;
    p.note("mem is reserved", &amounts(std::slice::from_ref(&after)));
    p.operate(&mut framework, &after, operation("UNRESERVE", &good)).await?;
    p.offer(&mut framework).await?;
    Ok(())
}
