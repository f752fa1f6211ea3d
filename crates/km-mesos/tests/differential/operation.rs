//! Operations other than launches, as frameworks ask for them and hear of them.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    framework::{Framework, accept_at_once, info, with},
    player::Player,
};

/// With the capability to read `reservations`, and a principal.
pub fn refined(roles: &[&str]) -> Value {
    let capabilities = ["MULTI_ROLE", "RESERVATION_REFINEMENT", "PARTITION_AWARE"].map(|name| json!({ "type": name }));
    with(with(info(roles), "capabilities", capabilities.to_vec().into()), "principal", "owner".into())
}

/// A resource reserved for a role by `refined` frameworks.
pub fn for_role(resource: Value, role: &str) -> Value {
    with(resource, "reservations", json!([{ "type": "DYNAMIC", "role": role, "principal": "owner" }]))
}

/// A persistent volume of so many MB.
pub fn volume(role: &str, id: &str, megabytes: f64) -> Value {
    let disk = json!({
        "persistence": { "id": id, "principal": "owner" }, "volume": { "container_path": format!("path-{id}"), "mode": "RW" },
    });
    with(for_role(crate::framework::scalar("disk", megabytes), role), "disk", disk)
}

/// An operation of this type on these resources.
pub fn operation(kind: &str, resources: &[Value]) -> Value {
    let (field, list) = match kind {
        "RESERVE" => ("reserve", "resources"),
        "UNRESERVE" => ("unreserve", "resources"),
        "CREATE" => ("create", "volumes"),
        _ => ("destroy", "volumes"),
    };
    json!({ "type": kind, field: { list: resources } })
}

/// With an id: its framework hears how it ends.
pub fn identified(operation: Value, id: &str) -> Value {
    with(operation, "id", json!({ "value": id }))
}

impl Player {
    /// The framework's next UPDATE_OPERATION_STATUS, acknowledged if it asks for that.
    pub async fn operation_ends(&mut self, framework: &mut Framework) -> Result<Value> {
        let event = self.expect(framework, "UPDATE_OPERATION_STATUS").await?;
        let status = event["update_operation_status"]["status"].clone();
        if status["uuid"].is_object() {
            self.acknowledge_operation(framework, &status).await?;
        }
        Ok(status)
    }

    /// Acknowledges an operation's status.
    pub async fn acknowledge_operation(&mut self, framework: &Framework, status: &Value) -> Result<()> {
        let body = json!({ "acknowledge_operation_status": {
            "agent_id": status["agent_id"], "operation_id": status["operation_id"], "uuid": status["uuid"]["value"],
        } });
        self.call(framework, "ACKNOWLEDGE_OPERATION_STATUS", body).await?;
        Ok(())
    }

    /// Asks for an operation on an offer, and waits for its end.
    pub async fn operate(&mut self, framework: &mut Framework, offer: &Value, operation: Value) -> Result<Value> {
        let operation = identified(operation, "operation");
        self.call(framework, "ACCEPT", accept_at_once(offer, &[operation])).await?;
        self.operation_ends(framework).await
    }

    /// As `operate`, on the next offer; then the offer after it, not recorded.
    pub async fn operate_next(&mut self, framework: &mut Framework, operation: Value) -> Result<()> {
        let offer = self.offers_quietly(framework, 1).await?.remove(0);
        self.operate(framework, &offer, operation).await?;
        Ok(())
    }
}
