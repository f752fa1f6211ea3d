//! Lists in a strategic merge patch: merged by key, or as sets of scalars, then put in order.

use super::PatchError;
use super::strategic::{PATCH, merge_object, unknown_directive};
use crate::schema::TypeRef;
use serde_json::{Map, Value};

/// How one list is merged.
pub(super) struct Merging<'a> {
    /// The field's name, for messages.
    pub name: &'a str,
    pub items: Option<TypeRef>,
    /// The field that identifies an item; none for scalars.
    pub key: Option<&'static str>,
    /// `$deleteFromPrimitiveList` of this field.
    pub deleted: Option<&'a Vec<Value>>,
    /// `$setElementOrder` of this field.
    pub order: Option<&'a Vec<Value>>,
}

pub(super) fn merge(how: &Merging<'_>, live: Vec<Value>, changes: &[Value]) -> Result<Vec<Value>, PatchError> {
    let original = live.clone();
    let merged = match how.key {
        Some(key) => objects(how, key, live, changes)?,
        None => scalars(how, live, changes),
    };
    let order = how.order.map_or(changes, Vec::as_slice);
    Ok(arrange(how.key, merged, order, &original))
}

fn scalars(how: &Merging<'_>, mut live: Vec<Value>, changes: &[Value]) -> Vec<Value> {
    if let Some(deleted) = how.deleted {
        live.retain(|value| !deleted.contains(value));
    }
    for value in changes {
        if !live.contains(value) {
            live.push(value.clone());
        }
    }
    live
}

fn objects(how: &Merging<'_>, key: &str, mut live: Vec<Value>, changes: &[Value]) -> Result<Vec<Value>, PatchError> {
    let mut replace = false;
    let mut additions = Vec::new();
    for change in changes {
        let Value::Object(fields) = change else {
            return Err(PatchError::Malformed(format!("items of {:?} must be objects, got {change}", how.name)));
        };
        match fields.get(PATCH) {
            Some(Value::String(directive)) if directive == "replace" => {
                replace = true;
                // `{$patch: replace}` alone replaces the list by the other items.
                if fields.len() > 1 {
                    additions.push(fields);
                }
            }
            Some(Value::String(directive)) if directive == "delete" => {
                let value = key_of(how, key, fields)?;
                live.retain(|item| item.get(key) != Some(value));
            }
            Some(Value::String(directive)) if directive != "merge" => {
                return Err(unknown_directive(&fields[PATCH]));
            }
            _ => additions.push(fields),
        }
    }
    if replace {
        live.clear();
    }
    for fields in additions {
        let value = key_of(how, key, fields)?;
        let mut fields = fields.clone();
        fields.remove(PATCH);
        match live.iter_mut().find(|item| item.get(key) == Some(value)) {
            Some(Value::Object(old)) => *old = merge_object(how.items, std::mem::take(old), &fields)?,
            _ => live.push(Value::Object(merge_object(how.items, Map::new(), &fields)?)),
        }
    }
    Ok(live)
}

fn key_of<'a>(how: &Merging<'_>, key: &str, fields: &'a Map<String, Value>) -> Result<&'a Value, PatchError> {
    fields.get(key).filter(|value| !value.is_null()).ok_or_else(|| {
        let item = Value::Object(fields.clone());
        PatchError::Malformed(format!("map: {item} in {:?} does not contain declared merge key: {key}", how.name))
    })
}

/// Items that `order` names come in its order. The others keep their place relative to those, as they stood in the
/// original, as far as that is possible.
fn arrange(key: Option<&str>, merged: Vec<Value>, order: &[Value], original: &[Value]) -> Vec<Value> {
    let position = |list: &[Value], item: &Value| list.iter().position(|other| same(key, other, item));
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| position(order, item).is_some());
    named.sort_by_key(|item| position(order, item));
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let place = position(original, &item);
        while let (Some(place), Some(other)) = (place, others.peek()) {
            if position(original, other).is_none_or(|other| other > place) {
                break;
            }
            arranged.extend(others.next());
        }
        arranged.push(item);
    }
    arranged.extend(others);
    arranged
}

/// Whether two items are the same by key; scalars by value.
fn same(key: Option<&str>, one: &Value, other: &Value) -> bool {
    match key {
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        None => one == other,
    }
}
