//! Secrets: `stringData` is only a convenience of writing and becomes `data`.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use crate::{failure::Failure, registry::Hooks, server::Server};

pub const HOOKS: Hooks = Hooks { create: |_, secret| encode(secret), update: |_: &Server, _, secret| encode(secret) };

fn encode(secret: &mut Value) -> Result<(), Failure> {
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|fields| fields.remove("stringData")) else {
        return Ok(());
    };
    if !secret["data"].is_object() {
        secret["data"] = json!({});
    }
    for (key, text) in texts {
        secret["data"][key] = BASE64.encode(text.as_str().unwrap_or_default()).into();
    }
    Ok(())
}
