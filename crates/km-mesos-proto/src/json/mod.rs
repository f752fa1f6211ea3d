//! The Mesos JSON dialect, which is not the proto3 one.
//!
//! Names stay in snake_case, enums are names, bytes are padded base64, 64-bit numbers are numbers, unset fields are
//! left out unless they have an explicit default. Reading is lenient: unknown fields and `null` are ignored, numbers
//! and booleans may be text, and a single value may stand for a list of one.
//!
//! Both directions go over the wire format, field by field from the type's description, so there is no second,
//! dynamic form of each message.

mod ascii;
mod input;
mod output;

use serde_json::Value;

pub use ascii::{to_ascii_string, to_ascii_vec};
pub use input::JsonError;

use crate::{Message, schema::SCHEMA};

/// The message as a JSON value.
pub fn to_value<M: Message>(message: &M) -> Value {
    let bytes = message.encode_to_vec();
    // Only a map with keys that aren't text could fail, and JSON keys are written as text.
    serde_json::to_value(output::WireMessage::new(SCHEMA.of::<M>(), &bytes)).expect("every message has a JSON form")
}

/// The message as compact JSON text in ASCII: other characters are escaped, so length in bytes and in characters agree.
pub fn to_string<M: Message>(message: &M) -> String {
    let bytes = message.encode_to_vec();
    to_ascii_string(&output::WireMessage::new(SCHEMA.of::<M>(), &bytes))
}

/// As [`to_string`], in bytes for a body.
pub fn to_vec<M: Message>(message: &M) -> Vec<u8> {
    to_string(message).into_bytes()
}

/// Reads a message from JSON text.
pub fn from_slice<M: Message>(text: &[u8]) -> Result<M, JsonError> {
    from_value(&serde_json::from_slice(text)?)
}

/// As [`from_slice`].
pub fn from_str<M: Message>(text: &str) -> Result<M, JsonError> {
    from_slice(text.as_bytes())
}

/// Reads a message from a JSON value, which has to be an object.
pub fn from_value<M: Message>(value: &Value) -> Result<M, JsonError> {
    let bytes = input::encode(SCHEMA.of::<M>(), value)?;
    M::decode(&bytes[..]).map_err(|error| JsonError::TooDeep(error.to_string()))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod round_trip_tests;
