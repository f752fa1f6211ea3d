//! Finds missing proto2 `required` fields, which the generated decoders fill with defaults instead.

use crate::{
    Message,
    schema::{Field, Kind, MessageType, SCHEMA, Shape},
    wire::{Malformed, Reader, WireValue},
};

/// Why bytes are not a valid message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are no protobuf message of this type.
    #[error("malformed protobuf: {0}")]
    Malformed(String),
    /// Required fields are missing; each is named by its path, e.g. `accept.offer_ids[0].value`.
    #[error("Missing required fields: {}", .0.join(", "))]
    MissingRequired(Vec<String>),
}

/// Decodes a message and checks that all `required` fields, at any depth, are there.
pub fn decode_checked<M: Message>(bytes: &[u8]) -> Result<M, DecodeError> {
    // Decoding first also bounds the depth of what is walked below.
    let message = M::decode(bytes).map_err(|error| DecodeError::Malformed(error.to_string()))?;
    let mut missing = Vec::new();
    find_missing(SCHEMA.of::<M>(), bytes, &mut missing)
        .map_err(|Malformed| DecodeError::Malformed("bytes end inside a field".to_owned()))?;
    if missing.is_empty() { Ok(message) } else { Err(DecodeError::MissingRequired(missing)) }
}

fn find_missing(message: &MessageType, bytes: &[u8], missing: &mut Vec<String>) -> Result<(), Malformed> {
    let mut seen = vec![0u32; message.fields.len()];
    let mut children: Vec<(usize, &[u8])> = Vec::new();
    let mut reader = Reader(bytes);
    while let Some((number, value)) = reader.next()? {
        let Some((index, field)) = message.by_number(number) else { continue };
        seen[index] += 1;
        if let (Kind::Message(_), WireValue::Bytes(bytes)) = (field.kind, value) {
            children.push((index, bytes));
        }
    }
    let unseen = message.fields.iter().zip(&seen).filter(|(field, seen)| field.required && **seen == 0);
    missing.extend(unseen.map(|(field, _)| field.name.clone()));
    for (index, field) in message.fields.iter().enumerate() {
        let parts = children.iter().filter(|(child, _)| *child == index).map(|(_, bytes)| *bytes);
        check_children(field, parts, seen[index], missing)?;
    }
    Ok(())
}

fn check_children<'a>(
    field: &Field,
    parts: impl Iterator<Item = &'a [u8]>,
    count: u32,
    missing: &mut Vec<String>,
) -> Result<(), Malformed> {
    let Kind::Message(index) = field.kind else { return Ok(()) };
    let message = SCHEMA.message(index);
    // A single message that comes in parts is merged: the same as reading the parts as one.
    if field.shape == Shape::Single && count > 1 {
        let whole = parts.collect::<Vec<_>>().concat();
        return within(missing, &field.name, |missing| find_missing(message, &whole, missing));
    }
    for (position, part) in parts.enumerate() {
        let place = path_step(field, position);
        within(missing, &place, |missing| find_missing(message, part, missing))?;
    }
    Ok(())
}

/// A field's name in a path, with its position if it repeats.
pub(crate) fn path_step(field: &Field, position: usize) -> String {
    if field.shape == Shape::Single { field.name.clone() } else { format!("{}[{position}]", field.name) }
}

/// Puts `place` before all paths that `find` adds.
pub(crate) fn within<T>(missing: &mut Vec<String>, place: &str, find: impl FnOnce(&mut Vec<String>) -> T) -> T {
    let known = missing.len();
    let result = find(missing);
    for path in &mut missing[known..] {
        *path = format!("{place}.{path}");
    }
    result
}
