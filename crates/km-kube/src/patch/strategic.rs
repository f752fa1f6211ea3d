//! Strategic merge patch: like a merge patch, but lists merge by key where the type says so, and directives steer it.
//!
//! Directives (Kubernetes docs, "Update API Objects in Place Using kubectl patch"):
//! - `$patch: replace | delete | merge` in an object or in an item of a merged list;
//! - `$retainKeys: [..]`: fields of the live object that are not listed go away;
//! - `$deleteFromPrimitiveList/<field>: [..]`: values to remove from a merged list of scalars;
//! - `$setElementOrder/<field>: [..]`: the order of a merged list.

use super::PatchError;
use super::strategic_list::{self, Merging};
use crate::schema::TypeRef;
use serde_json::{Map, Value};

pub(super) const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Applies a strategic merge patch to an object of a built-in type.
///
/// # Errors
/// When the patch is no object, a directive is malformed, or an item of a merged list lacks the merge key.
pub fn strategic_merge(of: TypeRef, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch must be a JSON object".to_owned()));
    };
    let live = object.as_object().cloned().unwrap_or_default();
    merge_object(Some(of), live, patch).map(Value::Object)
}

/// Lays `patch` over `live`. `of` is unknown below free-form objects, where lists are replaced.
pub(super) fn merge_object(
    of: Option<TypeRef>,
    mut live: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.get(PATCH) {
        None => {}
        Some(Value::String(directive)) if directive == "merge" => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(without_directives(patch)),
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(other) => return Err(unknown_directive(other)),
    }
    retain_keys(&mut live, patch)?;
    for (name, value) in patch {
        if !name.starts_with('$') {
            merge_field(of, &mut live, name, value, patch)?;
        }
    }
    for (name, value) in patch {
        let field = name.strip_prefix(DELETE_FROM).or_else(|| name.strip_prefix(SET_ORDER));
        match field {
            // Fields that the patch itself changes were merged with their directives above.
            Some(field) if patch.contains_key(field) => {}
            Some(field) => steer_list(of, &mut live, field, patch)?,
            None if name.starts_with('$') && name != PATCH && name != RETAIN_KEYS => {
                return Err(PatchError::Malformed(format!("unknown directive {name:?} (value {value})")));
            }
            None => {}
        }
    }
    Ok(live)
}

fn merge_field(
    of: Option<TypeRef>,
    live: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    let field = of.and_then(|of| of.field(name));
    match value {
        Value::Null => {
            live.remove(name);
        }
        Value::Object(changes) => {
            let replaces = field.is_some_and(TypeRef::patch_replaces);
            let merged = match live.get_mut(name).map(Value::take) {
                Some(Value::Object(old)) if !replaces => merge_object(field, old, changes)?,
                // Merging into nothing strips the directives and the nulls.
                _ => merge_object(field, Map::new(), changes)?,
            };
            live.insert(name.to_owned(), Value::Object(merged));
        }
        Value::Array(changes) if field.is_some_and(TypeRef::patch_merges) => {
            merge_list(field, live, name, changes, patch)?;
        }
        Value::Array(items) => {
            let replaced = items.iter().map(strip).collect();
            live.insert(name.to_owned(), Value::Array(replaced));
        }
        scalar => {
            live.insert(name.to_owned(), scalar.clone());
        }
    }
    Ok(())
}

/// A list that only directives touch.
fn steer_list(
    of: Option<TypeRef>,
    live: &mut Map<String, Value>,
    name: &str,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    if !live.get(name).is_some_and(Value::is_array) {
        return Ok(());
    }
    merge_list(of.and_then(|of| of.field(name)), live, name, &[], patch)
}

fn merge_list(
    field: Option<TypeRef>,
    live: &mut Map<String, Value>,
    name: &str,
    changes: &[Value],
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    let old = match live.get_mut(name).map(Value::take) {
        Some(Value::Array(old)) => old,
        _ => Vec::new(),
    };
    let how = Merging {
        name,
        items: field.and_then(TypeRef::items),
        key: field.and_then(TypeRef::merge_key),
        deleted: directive_list(patch, DELETE_FROM, name)?,
        order: directive_list(patch, SET_ORDER, name)?,
    };
    live.insert(name.to_owned(), Value::Array(strategic_list::merge(&how, old, changes)?));
    Ok(())
}

fn directive_list<'a>(
    patch: &'a Map<String, Value>,
    directive: &str,
    field: &str,
) -> Result<Option<&'a Vec<Value>>, PatchError> {
    match patch.get(&format!("{directive}{field}")) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(PatchError::Malformed(format!("{directive}{field} must be a list"))),
    }
}

fn retain_keys(live: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Some(keys) = directive.as_array() else {
        return Err(PatchError::Malformed(format!("{RETAIN_KEYS} must be a list of field names, got {directive}")));
    };
    let listed = |name: &str| keys.iter().any(|key| key == name);
    let stray = patch.iter().find(|(name, value)| !name.starts_with('$') && !value.is_null() && !listed(name));
    if let Some((name, _)) = stray {
        return Err(PatchError::Malformed(format!("{RETAIN_KEYS} lists {directive} but the patch sets {name:?} too")));
    }
    live.retain(|name, _| listed(name));
    Ok(())
}

pub(super) fn unknown_directive(directive: &Value) -> PatchError {
    PatchError::Malformed(format!("unknown $patch directive {directive}: want \"merge\", \"replace\" or \"delete\""))
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = patch.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
    kept.map(|(name, value)| (name.clone(), strip(value))).collect()
}

/// A value as it is stored when nothing was there before.
pub(super) fn strip(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(without_directives(fields)),
        Value::Array(items) => Value::Array(items.iter().map(strip).collect()),
        scalar => scalar.clone(),
    }
}
