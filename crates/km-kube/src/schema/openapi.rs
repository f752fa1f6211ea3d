//! The table as an OpenAPI v3 document per group and version.
//!
//! Paths are the API server's: it fills `paths` with what it serves. Here come the components.

use super::table::{REF_PREFIX, TEXT, table};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// A document whose `components.schemas` hold every kind of the group and version, its list, and what they reach.
/// `paths` is empty. A group that is not served gives a document without schemas.
#[must_use]
pub fn openapi_v3(group: &str, version: &str) -> Value {
    let mut schemas = Map::new();
    let mut waiting: Vec<String> = Vec::new();
    for kind in table().kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        let list = format!("{}List", kind.type_name);
        schemas.insert(list, list_schema(&kind.kind, group, version, &kind.type_name));
        waiting.push(kind.type_name.clone());
    }
    if !waiting.is_empty() {
        for name in ["Status", "DeleteOptions", "ListMeta"] {
            waiting.push(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"));
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(raw) = raw_types().get(&name) else { continue };
        let mut schema = raw.clone();
        rewrite(&mut schema, &mut waiting);
        add_kinds(&mut schema, &name);
        schemas.insert(name, schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": {},
        "components": {"schemas": schemas},
    })
}

fn raw_types() -> &'static Map<String, Value> {
    static RAW: OnceLock<Map<String, Value>> = OnceLock::new();
    RAW.get_or_init(|| {
        let mut whole: Value = serde_json::from_str(TEXT).unwrap_or_default();
        match whole.get_mut("types").map(Value::take) {
            Some(Value::Object(types)) => types,
            _ => Map::new(),
        }
    })
}

fn list_schema(kind: &str, group: &str, version: &str, item: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": format!("{REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")}],
                         "default": {}},
            "items": {"type": "array",
                      "items": {"allOf": [{"$ref": format!("{REF_PREFIX}{item}")}], "default": {}}},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": format!("{kind}List")}],
    })
}

/// Says which kinds a type is, as clients look types up by that.
fn add_kinds(schema: &mut Value, name: &str) {
    let kinds: Vec<Value> = table()
        .kinds
        .iter()
        .filter(|kind| kind.type_name == name)
        .map(|kind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind}))
        .collect();
    if !kinds.is_empty() {
        schema["x-kubernetes-group-version-kind"] = Value::Array(kinds);
    }
}

/// A reference may have no neighbours in OpenAPI v3, and numbers or texts are `oneOf`. Notes what is referred to.
fn rewrite(schema: &mut Value, waiting: &mut Vec<String>) {
    let Value::Object(fields) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(|item| rewrite(item, waiting));
        }
        return;
    };
    match fields.get("format").and_then(Value::as_str) {
        Some("quantity") => {
            fields.clear();
            fields.insert("oneOf".to_owned(), json!([{"type": "string"}, {"type": "number"}]));
            return;
        }
        Some("int-or-string") => {
            fields.clear();
            fields.insert("format".to_owned(), json!("int-or-string"));
            fields.insert("oneOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
            return;
        }
        _ => {}
    }
    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
        waiting.push(reference.trim_start_matches(REF_PREFIX).to_owned());
        if fields.len() > 1
            && let Some(reference) = fields.remove("$ref")
        {
            fields.insert("allOf".to_owned(), json!([{"$ref": reference}]));
        }
        return;
    }
    fields.values_mut().for_each(|child| rewrite(child, waiting));
}
