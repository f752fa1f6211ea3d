//! Encodes a JSON object as a message, with the leniencies of Mesos.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value};

use crate::{
    required::{path_step, within},
    schema::{Field, Kind, MessageType, SCHEMA, Shape},
    wire::{WireValue, write},
};

/// Why JSON is not the wanted message.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// The JSON is something else than an object.
    #[error("Expecting a JSON object")]
    NotAnObject,
    /// A field can't hold its value. The path names it, e.g. `accept.operations[0].launch`.
    #[error("Field '{path}': {reason}")]
    Field {
        /// The field's place in the message.
        path: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Required fields are missing, each named by its path.
    #[error("Missing required fields: {}", .0.join(", "))]
    MissingRequired(Vec<String>),
    /// Messages are nested deeper than a decoder goes.
    #[error("{0}")]
    TooDeep(String),
}

impl JsonError {
    fn inside(self, place: &str) -> Self {
        match self {
            Self::Field { path, reason } if path.is_empty() => Self::Field { path: place.to_owned(), reason },
            Self::Field { path, reason } => Self::Field { path: format!("{place}.{path}"), reason },
            other => other,
        }
    }
}

fn wrong(reason: impl Into<String>) -> JsonError {
    JsonError::Field { path: String::new(), reason: reason.into() }
}

/// The wire form of `value` as a message of this type.
pub(super) fn encode(message: &MessageType, value: &Value) -> Result<Vec<u8>, JsonError> {
    let Value::Object(object) = value else { return Err(JsonError::NotAnObject) };
    let mut missing = Vec::new();
    let mut out = Vec::new();
    encode_message(message, object, &mut out, &mut missing)?;
    if missing.is_empty() { Ok(out) } else { Err(JsonError::MissingRequired(missing)) }
}

fn encode_message(
    message: &MessageType,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
    missing: &mut Vec<String>,
) -> Result<(), JsonError> {
    let is_set = |field: &Field| object.get(&field.name).is_some_and(|value| !value.is_null());
    let unset = message.fields.iter().filter(|field| field.required && !is_set(field));
    missing.extend(unset.map(|field| field.name.clone()));
    for (name, value) in object {
        let Some((_, field)) = message.by_name(name) else { continue };
        encode_field(field, value, out, missing)?;
    }
    Ok(())
}

fn encode_field(field: &Field, value: &Value, out: &mut Vec<u8>, missing: &mut Vec<String>) -> Result<(), JsonError> {
    match (field.shape, value) {
        (_, Value::Null) => Ok(()),
        (Shape::Map, Value::Object(entries)) => encode_map(field, entries, out, missing),
        (Shape::Map, other) => {
            Err(wrong(format!("expecting a JSON object for a map, got {}", kind_of(other))).inside(&field.name))
        }
        (Shape::Repeated, Value::Array(values)) => {
            for (position, value) in values.iter().enumerate().filter(|(_, value)| !value.is_null()) {
                encode_single(field, position, value, out, missing)?;
            }
            Ok(())
        }
        (Shape::Repeated | Shape::Single, value) => encode_single(field, 0, value, out, missing),
    }
}

fn encode_map(
    field: &Field,
    entries: &Map<String, Value>,
    out: &mut Vec<u8>,
    missing: &mut Vec<String>,
) -> Result<(), JsonError> {
    let Kind::Message(index) = field.kind else { return Ok(()) };
    // Every map entry has a text key, field 1, and a value, field 2.
    let Some((_, value_field)) = SCHEMA.message(index).by_number(2) else { return Ok(()) };
    for (key, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
        let mut entry = Vec::new();
        write(1, WireValue::Bytes(key.as_bytes()), &mut entry);
        let place = format!("{}[\"{key}\"]", field.name);
        within(missing, &place, |missing| encode_value(value_field, value, &mut entry, missing))
            .map_err(|error| error.inside(&place))?;
        write(field.number, WireValue::Bytes(&entry), out);
    }
    Ok(())
}

fn encode_single(
    field: &Field,
    position: usize,
    value: &Value,
    out: &mut Vec<u8>,
    missing: &mut Vec<String>,
) -> Result<(), JsonError> {
    let known = missing.len();
    let result = encode_value(field, value, out, missing);
    // The place is only spelled out when somebody will read it.
    if result.is_err() || missing.len() > known {
        let place = path_step(field, position);
        for path in &mut missing[known..] {
            *path = format!("{place}.{path}");
        }
        return result.map_err(|error| error.inside(&place));
    }
    result
}

fn encode_value(field: &Field, value: &Value, out: &mut Vec<u8>, missing: &mut Vec<String>) -> Result<(), JsonError> {
    let wire = match field.kind {
        Kind::Message(index) => {
            let Value::Object(object) = value else { return Err(mismatch("a JSON object", value)) };
            let mut child = Vec::new();
            encode_message(SCHEMA.message(index), object, &mut child, missing)?;
            write(field.number, WireValue::Bytes(&child), out);
            return Ok(());
        }
        Kind::Bytes => {
            let decoded = STANDARD.decode(text(value, "a string in base64")?);
            let bytes = decoded.map_err(|error| wrong(format!("failed to base64 decode: {error}")))?;
            write(field.number, WireValue::Bytes(&bytes), out);
            return Ok(());
        }
        Kind::Enum(index) => {
            let name = text(value, "a string with an enum's name")?;
            match SCHEMA.enumeration(index).number(name) {
                Some(number) => varint(number.into()),
                None if field.required => {
                    return Err(wrong(format!("failed to find enum for '{name}'")));
                }
                // A newer peer's name for something optional.
                None => return Ok(()),
            }
        }
        Kind::String => WireValue::Bytes(text(value, "a string")?.as_bytes()),
        Kind::Bool => WireValue::Varint(boolean(value)?.into()),
        Kind::Double => WireValue::Fixed64(double(value)?.to_bits()),
        // Narrowing is what the field is for.
        Kind::Float => WireValue::Fixed32((double(value)? as f32).to_bits()),
        Kind::Int32 => varint(integer(value, i32::MIN.into(), i32::MAX.into())?),
        Kind::Int64 => varint(integer(value, i64::MIN.into(), i64::MAX.into())?),
        Kind::Uint32 => varint(integer(value, 0, u32::MAX.into())?),
        Kind::Uint64 => varint(integer(value, 0, u64::MAX.into())?),
    };
    write(field.number, wire, out);
    Ok(())
}

/// The wire form of an integer that fits its field: negative ones are sign-extended to 64 bits.
// The range has been checked, so the cast keeps the value.
fn varint(value: i128) -> WireValue<'static> {
    WireValue::Varint(value as u64)
}

fn text<'a>(value: &'a Value, wanted: &str) -> Result<&'a str, JsonError> {
    value.as_str().ok_or_else(|| mismatch(wanted, value))
}

fn boolean(value: &Value) -> Result<bool, JsonError> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::String(text) => text.parse().map_err(|_| wrong(format!("expecting true or false, got '{text}'"))),
        other => Err(mismatch("a boolean", other)),
    }
}

fn double(value: &Value) -> Result<f64, JsonError> {
    match value {
        Value::Number(number) => number.as_f64().ok_or_else(|| wrong(format!("{number} is out of range"))),
        Value::String(text) => text.parse().map_err(|_| wrong(format!("expecting a number, got '{text}'"))),
        other => Err(mismatch("a number", other)),
    }
}

fn integer(value: &Value, min: i128, max: i128) -> Result<i128, JsonError> {
    let parsed = match value {
        Value::Number(number) => whole(number),
        Value::String(text) => text.parse().ok(),
        other => return Err(mismatch("a number", other)),
    };
    let integer = parsed.ok_or_else(|| wrong(format!("expecting a whole number, got {value}")))?;
    if (min..=max).contains(&integer) {
        Ok(integer)
    } else {
        Err(wrong(format!("{integer} is out of range, it must be from {min} to {max}")))
    }
}

/// No integer field holds more: 2^64.
const LARGEST_WHOLE: f64 = 18_446_744_073_709_551_616.0;

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= LARGEST_WHOLE)?;
        // Whole and in the range of the type, as just checked.
        Some(float as i128)
    })
}

fn mismatch(wanted: &str, value: &Value) -> JsonError {
    wrong(format!("expecting {wanted}, got {}", kind_of(value)))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
