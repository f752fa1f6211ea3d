//! A subscribed framework, and the messages it sends.

use serde_json::{Value, json};

use crate::stream::Stream;

/// A framework's connection.
pub struct Framework {
    /// Its id; empty until SUBSCRIBED came.
    pub id: String,
    /// Of the `Mesos-Stream-Id` header.
    pub stream_id: String,
    /// Its events.
    pub stream: Stream,
}

/// The user that tests run as: the master need not become another.
fn user() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    user.map_or_else(|| "root".to_owned(), |user| user.name)
}

/// A framework's information with these roles.
pub fn info(roles: &[&str]) -> Value {
    json!({
        "user": user(), "name": "played", "roles": roles, "failover_timeout": 3600.0, "checkpoint": false,
        "capabilities": [{ "type": "MULTI_ROLE" }, { "type": "PARTITION_AWARE" }],
    })
}

/// A framework's information in the form from before there was MULTI_ROLE.
pub fn old_info(role: Option<&str>) -> Value {
    let mut info = json!({ "user": user(), "name": "played", "failover_timeout": 3600.0, "checkpoint": false });
    if let Some(role) = role {
        info["role"] = role.into();
    }
    info
}

/// With one field changed.
pub fn with(mut value: Value, field: &str, to: Value) -> Value {
    value[field] = to;
    value
}

/// With the id of a framework that was subscribed before.
pub fn again(info: Value, framework: &Framework) -> Value {
    with(info, "id", json!({ "value": framework.id }))
}

/// A filter of so many seconds.
pub fn filters(seconds: f64) -> Value {
    json!({ "refuse_seconds": seconds })
}

/// DECLINE's body.
pub fn decline(offers: &[Value], seconds: f64) -> Value {
    let ids: Vec<&Value> = offers.iter().map(|offer| &offer["id"]).collect();
    json!({ "decline": { "offer_ids": ids, "filters": filters(seconds) } })
}

/// ACCEPT's body; what is left is refused for long.
pub fn accept(offers: &[Value], operations: &[Value]) -> Value {
    let ids: Vec<&Value> = offers.iter().map(|offer| &offer["id"]).collect();
    json!({ "accept": { "offer_ids": ids, "operations": operations, "filters": filters(3600.0) } })
}

/// ACCEPT's body; what is left is offered again with the next batch.
pub fn accept_at_once(offer: &Value, operations: &[Value]) -> Value {
    json!({ "accept": { "offer_ids": [offer["id"]], "operations": operations, "filters": filters(0.0) } })
}

/// A scalar resource of no role.
pub fn scalar(name: &str, value: f64) -> Value {
    json!({ "name": name, "type": "SCALAR", "scalar": { "value": value } })
}

/// The LAUNCH operation.
pub fn launch(tasks: &[Value]) -> Value {
    json!({ "type": "LAUNCH", "launch": { "task_infos": tasks } })
}

/// Offers without what differs between equal agents: to record who got how much.
pub fn amounts(offers: &[Value]) -> Value {
    offers
        .iter()
        .map(|offer| {
            let mut offer = offer.clone();
            if let Some(fields) = offer.as_object_mut() {
                fields.retain(|name, _| name == "resources");
            }
            offer
        })
        .collect()
}
