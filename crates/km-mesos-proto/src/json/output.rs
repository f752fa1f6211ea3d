//! Writes an encoded message as JSON. The bytes come from this crate's own encoder: fields are in order, the values of
//! a repeated field stand together.

use std::cell::Cell;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap, SerializeSeq},
};

use crate::{
    schema::{Default, Field, Kind, MessageType, SCHEMA, Shape},
    wire::{Reader, WireValue},
};

/// An encoded message that serializes as a JSON object.
pub(super) struct WireMessage<'a> {
    message: &'a MessageType,
    bytes: &'a [u8],
}

impl<'a> WireMessage<'a> {
    pub fn new(message: &'a MessageType, bytes: &'a [u8]) -> Self {
        Self { message, bytes }
    }
}

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        let mut reader = Reader(self.bytes);
        let mut next_unseen = 0;
        loop {
            let start = reader;
            let Some((number, value)) = reader.next().map_err(S::Error::custom)? else { break };
            let Some((index, field)) = self.message.by_number(number) else { continue };
            write_defaults(&mut object, &self.message.fields[next_unseen.min(index)..index])?;
            next_unseen = index + 1;
            if field.shape == Shape::Single {
                if is_nameless(field.kind, value) {
                    continue;
                }
                object.serialize_entry(&field.name, &Single { kind: field.kind, value })?;
            } else {
                let rest = Cell::new(start);
                object.serialize_entry(&field.name, &Run { field, rest: &rest })?;
                reader = rest.get();
            }
        }
        write_defaults(&mut object, &self.message.fields[next_unseen..])?;
        object.end()
    }
}

/// A newer peer's enum value has no name here: its field is left out.
fn is_nameless(kind: Kind, value: WireValue<'_>) -> bool {
    let (Kind::Enum(index), WireValue::Varint(value)) = (kind, value) else { return false };
    i32::try_from(value.cast_signed()).is_ok_and(|number| SCHEMA.enumeration(index).name(number).is_none())
}

fn write_defaults<M: SerializeMap>(object: &mut M, unset: &[Field]) -> Result<(), M::Error> {
    for field in unset {
        match &field.shown_default {
            None => {}
            Some(Default::Bool(value)) => object.serialize_entry(&field.name, value)?,
            Some(Default::Integer(value)) => object.serialize_entry(&field.name, value)?,
            Some(Default::Double(value)) => object.serialize_entry(&field.name, value)?,
            Some(Default::Text(value)) => object.serialize_entry(&field.name, value)?,
        }
    }
    Ok(())
}

/// The values of one repeated field or map. `rest` begins at the first and is left behind the last.
struct Run<'r, 'a> {
    field: &'a Field,
    rest: &'r Cell<Reader<'a>>,
}

impl<'a> Run<'_, 'a> {
    fn next<E: serde::ser::Error>(&self) -> Result<Option<WireValue<'a>>, E> {
        let mut reader = self.rest.get();
        let Some((number, value)) = reader.next().map_err(E::custom)? else { return Ok(None) };
        if number != self.field.number {
            return Ok(None);
        }
        self.rest.set(reader);
        Ok(Some(value))
    }
}

impl Serialize for Run<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.field.kind;
        if let (Shape::Map, Kind::Message(entry)) = (self.field.shape, kind) {
            let entry = SCHEMA.message(entry);
            let mut object = serializer.serialize_map(None)?;
            while let Some(value) = self.next()? {
                let (key, value) = map_entry(entry, value)?;
                object.serialize_entry(&key, &value)?;
            }
            return object.end();
        }
        let mut list = serializer.serialize_seq(None)?;
        while let Some(value) = self.next()? {
            list.serialize_element(&Single { kind, value })?;
        }
        list.end()
    }
}

/// An amount of nothing: `Value.Scalar` with its required value.
const ZERO: [u8; 9] = [0x09, 0, 0, 0, 0, 0, 0, 0, 0];

/// Key and value of a map entry. Every map of Mesos has text keys and message values. What is empty is left out when a
/// map is encoded, and with it a value whose only field is a zero, though the field is required.
fn map_entry<'a, E: serde::ser::Error>(entry: &MessageType, value: WireValue<'a>) -> Result<(&'a str, Single<'a>), E> {
    let WireValue::Bytes(bytes) = value else { return Err(E::custom("a map entry is not a message")) };
    let value_field = entry.by_number(2).ok_or_else(|| E::custom("a map entry has no value field"))?.1;
    let required = |message: &MessageType| message.by_number(1).is_some_and(|(_, field)| field.required);
    let empty: &[u8] = match value_field.kind {
        Kind::Message(index) if required(SCHEMA.message(index)) => &ZERO,
        _ => &[],
    };
    let mut result = ("", Single { kind: value_field.kind, value: WireValue::Bytes(empty) });
    let mut reader = Reader(bytes);
    while let Some((number, value)) = reader.next().map_err(E::custom)? {
        match (number, value) {
            (1, WireValue::Bytes(key)) => result.0 = std::str::from_utf8(key).map_err(E::custom)?,
            (2, value) => result.1.value = value,
            _ => {}
        }
    }
    Ok(result)
}

struct Single<'a> {
    kind: Kind,
    value: WireValue<'a>,
}

impl Serialize for Single<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.kind, self.value) {
            (Kind::Bool, WireValue::Varint(value)) => serializer.serialize_bool(value != 0),
            (Kind::Int32 | Kind::Int64, WireValue::Varint(value)) => serializer.serialize_i64(value.cast_signed()),
            (Kind::Uint32 | Kind::Uint64, WireValue::Varint(value)) => serializer.serialize_u64(value),
            (Kind::Double, WireValue::Fixed64(bits)) => double(f64::from_bits(bits), serializer),
            (Kind::Float, WireValue::Fixed32(bits)) => double(f32::from_bits(bits).into(), serializer),
            (Kind::Enum(index), WireValue::Varint(value)) => {
                let number = i32::try_from(value.cast_signed()).map_err(S::Error::custom)?;
                match SCHEMA.enumeration(index).name(number) {
                    Some(name) => serializer.serialize_str(name),
                    // In a list, an element can't be left out without moving the others.
                    None => serializer.serialize_i32(number),
                }
            }
            (Kind::String, WireValue::Bytes(text)) => {
                serializer.serialize_str(std::str::from_utf8(text).map_err(S::Error::custom)?)
            }
            (Kind::Bytes, WireValue::Bytes(bytes)) => serializer.serialize_str(&STANDARD.encode(bytes)),
            (Kind::Message(index), WireValue::Bytes(bytes)) => {
                WireMessage::new(SCHEMA.message(index), bytes).serialize(serializer)
            }
            _ => Err(S::Error::custom("a field is encoded as another type")),
        }
    }
}

/// JSON has no infinities; Mesos reads them as text.
fn double<S: Serializer>(value: f64, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        f64::INFINITY => serializer.serialize_str("Infinity"),
        f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
        _ if value.is_nan() => serializer.serialize_str("NaN"),
        _ => serializer.serialize_f64(value),
    }
}
