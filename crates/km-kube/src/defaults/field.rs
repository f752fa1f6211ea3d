//! Small steps on JSON objects: set a field that is missing, step into a child, visit the items of a list.

use serde_json::{Map, Value};

/// Whether a field is missing or `null`.
pub(super) fn missing(object: &Value, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

/// Sets a field that is missing or `null`. Nothing happens to what is no object: its type is refused elsewhere.
pub(super) fn default(object: &mut Value, name: &str, value: impl Into<Value>) {
    if missing(object, name)
        && let Value::Object(fields) = object
    {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Sets a field of an object, whatever it was.
pub(super) fn set(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Like [`default`], and treats the empty text as missing, as Go does for texts.
pub(super) fn default_text(object: &mut Value, name: &str, value: &str) {
    if object.get(name).is_some_and(|have| have == "")
        && let Value::Object(fields) = object
    {
        fields.remove(name);
    }
    default(object, name, value);
}

/// The child object, made empty when missing. For a parent that is no object it is a dead end.
pub(super) fn child<'a>(object: &'a mut Value, name: &str) -> &'a mut Value {
    if !object.is_object() {
        return object;
    }
    default(object, name, Value::Object(Map::new()));
    &mut object[name]
}

/// The child, when it is there.
pub(super) fn existing<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    object.get_mut(name).filter(|child| child.is_object())
}

/// The items of a list field; none when it is missing.
pub(super) fn items<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// A text field; empty when missing.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
