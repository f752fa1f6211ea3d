//! Nodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use serde_json::Value;

use super::{Api, history::What};

/// Why a write has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// There is no such object, or it is another one (UID precondition).
    Gone,
    /// It can't be done; the text says why.
    Refused(String),
}

impl Api {
    /// Creates a node; that it is there already is fine.
    pub fn create_node(&mut self, node: Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if !self.nodes.contains_key(&name) {
            self.store_node(name, node);
        }
    }

    fn store_node(&mut self, name: String, mut node: Node) {
        let version = self.history.next();
        node.metadata.resource_version = Some(version.to_string());
        let node = Arc::new(node);
        self.history.push(version, What::NodeApplied(Arc::clone(&node)));
        self.nodes.insert(name, node);
    }

    /// A JSON merge patch.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn patch_node(&mut self, name: &str, patch: &Value) -> Result<(), WriteError> {
        let node = self.nodes.get(name).ok_or(WriteError::Gone)?;
        let patched = serde_json::to_value(&**node).and_then(|mut value| {
            merge(&mut value, patch);
            serde_json::from_value(value)
        });
        let patched = patched.map_err(|error| WriteError::Refused(error.to_string()))?;
        self.store_node(name.to_owned(), patched);
        Ok(())
    }

    /// # Errors
    /// When it isn't there.
    pub fn delete_node(&mut self, name: &str) -> Result<(), WriteError> {
        self.nodes.remove(name).ok_or(WriteError::Gone)?;
        let version = self.history.next();
        self.history.push(version, What::NodeDeleted(name.to_owned()));
        Ok(())
    }

    pub fn taints(&self, node: &str) -> Vec<Taint> {
        self.nodes.get(node).and_then(|node| node.spec.as_ref()?.taints.clone()).unwrap_or_default()
    }

    /// The status of a node's Ready condition.
    pub fn ready(&self, node: &str) -> Option<String> {
        let conditions: &Vec<NodeCondition> = self.nodes.get(node)?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.clone())
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
