//! How frameworks hear of operations that they gave ids to.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::reservations::the_agent;
use crate::{
    compare::{Script, scripts},
    framework::{Framework, accept_at_once, scalar},
    operation::{for_role, identified, operation, refined},
    player::{DEADLINE, JSON, OPERATOR, POLL, Player, text},
};

/// Needs one agent.
pub const FEEDBACK: &[Script] = scripts![
    a_status_is_repeated_until_acknowledged,
    what_is_acknowledged_is_forgotten,
    unknown_operations_are_unknown,
    acknowledgements_of_operations_are_checked,
];

async fn reconcile(p: &mut Player, framework: &mut Framework, asked: &[Value]) -> Result<()> {
    p.call(framework, "RECONCILE_OPERATIONS", json!({ "reconcile_operations": { "operations": asked } })).await?;
    for _ in asked {
        p.expect(framework, "UPDATE_OPERATION_STATUS").await?;
    }
    Ok(())
}

/// Waits until master and agent know of no operation: the acknowledgement takes its time from one to the other.
async fn forgotten(p: &mut Player) -> Result<()> {
    p.until_operator("GET_OPERATIONS", |shown| shown["get_operations"]["operations"][0].is_null()).await?;
    let address = p.agent_address("r0").await?;
    let wait = async {
        loop {
            let call = json!({ "type": "GET_OPERATIONS" }).to_string();
            let answer = p.send_to(&address, "POST", OPERATOR, &JSON, call).await?;
            let shown: Value = serde_json::from_str(&text(answer).await?)?;
            if shown["get_operations"]["operations"][0].is_null() {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.context("the agent keeps an operation")?
}

async fn note_operations(p: &mut Player) -> Result<()> {
    let shown = p.ask(json!({ "type": "GET_OPERATIONS" })).await?;
    p.note("GET_OPERATIONS", &shown["get_operations"]);
    let shown = p.agent_call("r0", json!({ "type": "GET_OPERATIONS" })).await?;
    p.note("of the agent", &shown["get_operations"]);
    let names = [
        "total",
        "pending",
        "finished",
        "failed",
        "error",
        "dropped",
        "gone_by_operator",
        "reserve/finished",
        "reserve/error",
        "reserve/total",
    ];
    for name in names {
        p.metrics(&[&format!("master/operations/{name}")]).await?;
    }
    Ok(())
}

fn reservation(id: &str) -> Value {
    identified(operation("RESERVE", &[for_role(scalar("cpus", 1.0), "a")]), id)
}

async fn finished(p: &mut Player) -> Result<()> {
    let is = |shown: &Value| {
        shown["get_operations"]["operations"][0]["latest_status"]["state"].as_str() == Some("OPERATION_FINISHED")
    };
    p.until_operator("GET_OPERATIONS", is).await?;
    Ok(())
}

// M234, M231
async fn a_status_is_repeated_until_acknowledged(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.call(&framework, "ACCEPT", accept_at_once(&offer, &[reservation("first")])).await?;
    p.expect(&mut framework, "UPDATE_OPERATION_STATUS").await?;
    finished(p).await?;
    note_operations(p).await?;
    let agent = the_agent(p).await?;
    let known = json!({ "operation_id": { "value": "first" }, "agent_id": agent });
    reconcile(p, &mut framework, &[known]).await?;
    p.call(&framework, "RECONCILE_OPERATIONS", json!({ "reconcile_operations": { "operations": [] } })).await?;
    p.expect(&mut framework, "UPDATE_OPERATION_STATUS").await?;
    // The agent's own repetition.
    p.operation_ends(&mut framework).await?;
    forgotten(p).await?;
    note_operations(p).await?;
    super::operations::unreserve_all(p).await
}

// M235
async fn what_is_acknowledged_is_forgotten(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let offer = p.offer(&mut framework).await?;
    p.operate(&mut framework, &offer, operation("RESERVE", &[for_role(scalar("cpus", 1.0), "a")])).await?;
    forgotten(p).await?;
    let offer = p.offer(&mut framework).await?;
    p.operate(&mut framework, &offer, operation("UNRESERVE", &[for_role(scalar("cpus", 1.0), "a")])).await?;
    forgotten(p).await?;
    note_operations(p).await
}

// M231, M232
async fn unknown_operations_are_unknown(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(refined(&["a"])).await?;
    let agent = the_agent(p).await?;
    let id = json!({ "value": "never" });
    for asked in [
        json!({ "operation_id": id }),
        json!({ "operation_id": id, "agent_id": agent }),
        json!({ "operation_id": id, "agent_id": { "value": "nowhere" } }),
        json!({ "operation_id": id, "agent_id": agent, "resource_provider_id": { "value": "none" } }),
    ] {
        reconcile(p, &mut framework, &[asked]).await?;
    }
    p.call(&framework, "RECONCILE_OPERATIONS", json!({ "reconcile_operations": { "operations": [] } })).await?;
    p.quiet_but_for_offers(&mut framework).await
}

async fn acknowledgements_of_operations_are_checked(p: &mut Player) -> Result<()> {
    let framework = p.framework(refined(&["a"])).await?;
    let agent = the_agent(p).await?;
    let (id, good, bad) = (json!({ "value": "never" }), "AAAAAAAAQAGAAAAAAAAAAA==", "AAAA");
    for body in [
        json!({ "operation_id": id, "uuid": good }),
        json!({ "operation_id": id, "agent_id": agent, "uuid": bad }),
        json!({ "operation_id": id, "agent_id": agent, "uuid": good }),
        json!({ "operation_id": id, "agent_id": { "value": "nowhere" }, "uuid": good }),
    ] {
        let body = json!({ "acknowledge_operation_status": body });
        p.call(&framework, "ACKNOWLEDGE_OPERATION_STATUS", body).await?;
    }
    p.call(&framework, "ACKNOWLEDGE_OPERATION_STATUS", json!({})).await?;
    Ok(())
}
