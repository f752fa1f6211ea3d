//! Config maps and secrets.

use super::at::{At, Errors};
use super::error::FieldError;
use crate::names;
use serde_json::json;

/// All keys' contents together.
const MAX_SIZE: usize = 1024 * 1024;

pub(super) fn config_map(root: &At<'_>, errors: &mut Errors) {
    let (data, binary) = (root.field("data"), root.field("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        key_rule(key, &value, errors);
        size += value.text().len();
        if binary.value.get(key).is_some() {
            let detail = format!("duplicate of key present in {}", binary.path);
            errors.push(FieldError::invalid(value.path, &json!(key), &detail));
        }
    }
    for (key, value) in binary.entries() {
        key_rule(key, &value, errors);
        size += value.text().len() / 4 * 3;
    }
    if size > MAX_SIZE {
        errors.push(FieldError::too_long(root.path.clone(), MAX_SIZE));
    }
}

pub(super) fn secret(root: &At<'_>, errors: &mut Errors) {
    let data = root.field("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        key_rule(key, &value, errors);
        size += value.text().len() / 4 * 3;
    }
    if size > MAX_SIZE {
        errors.push(FieldError::too_long(data.path.clone(), MAX_SIZE));
    }
    let mut need = |keys: &[&str]| {
        for key in keys {
            if data.value.get(*key).is_none() {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
    };
    match root.field("type").text() {
        "kubernetes.io/dockercfg" => need(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => need(&[".dockerconfigjson"]),
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"]),
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        "kubernetes.io/basic-auth" if data.value.get("username").is_none() && data.value.get("password").is_none() => {
            need(&["username", "password"]);
        }
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let account = root.down("metadata.annotations").value.get(ACCOUNT).is_some();
            if !account {
                errors.push(FieldError::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            }
        }
        _ => {}
    }
}

fn key_rule(key: &str, at: &At<'_>, errors: &mut Errors) {
    if let Err(message) = names::config_map_key(key) {
        errors.push(FieldError::invalid(at.path.clone(), &json!(key), &message));
    }
}

pub(super) fn update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let kind = root.field("type");
    if kind.is_set() {
        kind.immutable(&before.field("type"), errors);
    }
    if !before.field("immutable").is_true() {
        return;
    }
    const FROZEN: &str = "field is immutable when `immutable` is set";
    if !root.field("immutable").is_true() {
        errors.push(root.field("immutable").forbidden(FROZEN));
    }
    for name in ["data", "binaryData"] {
        if root.field(name).value != before.field(name).value {
            errors.push(root.field(name).forbidden(FROZEN));
        }
    }
}
