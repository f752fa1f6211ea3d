//! Defaults.

use serde_json::Value;

/// Fills in what the manifest left out.
pub fn apply(_group: &str, _kind: &str, _object: &mut Value) {}
