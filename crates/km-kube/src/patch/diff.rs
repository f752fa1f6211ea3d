//! For tests: the strategic merge patch that turns one object into another.

use crate::schema::TypeRef;
use serde_json::{Map, Value, json};

pub(super) fn diff(of: Option<TypeRef>, old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, want) in new {
        let field = of.and_then(|of| of.field(name));
        match (old.get(name), want) {
            (Some(have), want) if have == want => {}
            (Some(Value::Object(have)), Value::Object(want)) => {
                patch.insert(name.clone(), Value::Object(diff(field, have, want)));
            }
            (Some(Value::Array(have)), Value::Array(want)) if field.is_some_and(TypeRef::patch_merges) => {
                list(field, name, have, want, &mut patch);
            }
            (_, want) => {
                patch.insert(name.clone(), want.clone());
            }
        }
    }
    patch
}

fn list(field: Option<TypeRef>, name: &str, have: &[Value], want: &[Value], patch: &mut Map<String, Value>) {
    let items = field.and_then(TypeRef::items);
    let Some(key) = field.and_then(TypeRef::merge_key) else {
        let gone: Vec<&Value> = have.iter().filter(|value| !want.contains(value)).collect();
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), json!(gone));
        patch.insert(format!("$setElementOrder/{name}"), json!(want));
        patch.insert(name.to_owned(), json!(want));
        return;
    };
    let mut changes = Vec::new();
    for item in have.iter().filter(|item| !want.iter().any(|other| other[key] == item[key])) {
        changes.push(json!({key: item[key], "$patch": "delete"}));
    }
    for item in want {
        let old = have.iter().find(|other| other[key] == item[key]).and_then(Value::as_object);
        let mut change = diff(items, old.unwrap_or(&Map::new()), item.as_object().unwrap());
        if old.is_none() || !change.is_empty() {
            change.insert(key.to_owned(), item[key].clone());
            changes.push(Value::Object(change));
        }
    }
    let order: Vec<Value> = want.iter().map(|item| json!({key: item[key]})).collect();
    patch.insert(format!("$setElementOrder/{name}"), Value::Array(order));
    patch.insert(name.to_owned(), Value::Array(changes));
}
