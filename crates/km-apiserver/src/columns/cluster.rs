//! Namespaces, config maps, secrets, service accounts, leases.

use serde_json::Value;

use super::{Column, age, at, name, number, size, text};

pub const NAMESPACES: &[Column] = &[text("Name"), text("Status"), text("Age")];

pub fn namespace(object: &Value) -> Vec<Value> {
    vec![name(object), at(object, "/status/phase").into(), age(object)]
}

pub const CONFIG_MAPS: &[Column] = &[text("Name"), text("Data"), text("Age")];

pub fn config_map(object: &Value) -> Vec<Value> {
    let entries = size(object, "/data") + size(object, "/binaryData");
    vec![name(object), entries.to_string().into(), age(object)]
}

pub const SECRETS: &[Column] = &[text("Name"), text("Type"), text("Data"), text("Age")];

pub fn secret(object: &Value) -> Vec<Value> {
    vec![name(object), at(object, "/type").into(), size(object, "/data").to_string().into(), age(object)]
}

pub const SERVICE_ACCOUNTS: &[Column] = &[text("Name"), number("Secrets"), text("Age")];

pub fn service_account(object: &Value) -> Vec<Value> {
    vec![name(object), size(object, "/secrets").into(), age(object)]
}

pub const LEASES: &[Column] = &[text("Name"), text("Holder"), text("Age")];

pub fn lease(object: &Value) -> Vec<Value> {
    vec![name(object), at(object, "/spec/holderIdentity").into(), age(object)]
}
