//! Whole messages of every kind, made at random from their descriptions, survive both encodings.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Map, json};

use super::*;
use crate::{
    decode_checked,
    schema::{Field, Kind, MessageType, Shape},
    v1,
};

/// Nesting below which only required fields are made. No Mesos message requires itself.
const DEPTH: usize = 7;

/// Random bytes as a stream of choices; zeros when they have run out, so that fewer bytes are simpler messages.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn text(&mut self) -> String {
        let alphabet = ['a', '/', '"', '\\', '\n', '\u{0}', '\u{7f}', 'é', '€', '\u{1F600}', '\u{FFFF}'];
        (0..self.byte() % 8).map(|_| alphabet[usize::from(self.byte()) % alphabet.len()]).collect()
    }

    fn message(&mut self, message: &MessageType, depth: usize) -> Value {
        let mut object = Map::new();
        for field in &message.fields {
            // What has a default is always printed, so it only comes back equal when it is set.
            let always = field.required || field.shown_default.is_some();
            if always || (depth < DEPTH && self.byte() % 3 == 1) {
                object.insert(field.name.clone(), self.field(field, depth));
            }
        }
        Value::Object(object)
    }

    fn field(&mut self, field: &Field, depth: usize) -> Value {
        let count = self.byte() % 3;
        match (field.shape, field.kind) {
            (Shape::Single, kind) => self.single(kind, depth),
            (Shape::Map, Kind::Message(entry)) => {
                let (_, value) = SCHEMA.message(entry).by_number(2).unwrap();
                (0..count).map(|_| (self.text(), self.single(value.kind, depth))).collect()
            }
            (_, kind) => (0..count).map(|_| self.single(kind, depth)).collect(),
        }
    }

    fn single(&mut self, kind: Kind, depth: usize) -> Value {
        match kind {
            Kind::Bool => json!(self.byte().is_multiple_of(2)),
            Kind::Int32 => json!(self.number() as i32),
            Kind::Int64 => json!(self.number() as i64),
            Kind::Uint32 => json!(self.number() as u32),
            Kind::Uint64 => json!(self.number()),
            Kind::Float => json!(self.number() as f32),
            Kind::Double => match self.byte() % 4 {
                0 => json!("-Infinity"),
                1 => json!(self.byte()),
                // The JSON parser may miss the last bit of longer fractions; amounts and times don't need it.
                _ => json!(f64::from(self.number() as i32) / 64.0),
            },
            Kind::String => json!(self.text()),
            Kind::Bytes => json!(STANDARD.encode((0..self.byte() % 9).map(|_| self.byte()).collect::<Vec<_>>())),
            Kind::Enum(index) => {
                let enumeration = SCHEMA.enumeration(index);
                let names: Vec<&str> = (0..64).filter_map(|number| enumeration.name(number)).collect();
                json!(names[usize::from(self.byte()) % names.len()])
            }
            Kind::Message(index) => self.message(SCHEMA.message(index), depth + 1),
        }
    }
}

fn check<M: Message + PartialEq + std::fmt::Debug>(entropy: &[u8]) -> Result<(), TestCaseError> {
    let made = Choices(entropy.iter()).message(SCHEMA.of::<M>(), 0);
    let message: M = from_value(&made).map_err(|error| TestCaseError::fail(format!("{error}: {made}")))?;
    let text = to_string(&message);
    prop_assert!(text.is_ascii());
    prop_assert_eq!(&from_str::<M>(&text).unwrap(), &message, "{}", text);
    prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), to_value(&message));
    prop_assert_eq!(&from_value::<M>(&to_value(&message)).unwrap(), &message);
    prop_assert_eq!(decode_checked::<M>(&message.encode_to_vec()).unwrap(), message);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_message_survives_both_encodings(entropy in prop::collection::vec(any::<u8>(), 0..1500)) {
        check::<v1::scheduler::Call>(&entropy)?;
        check::<v1::scheduler::Event>(&entropy)?;
        check::<v1::executor::Call>(&entropy)?;
        check::<v1::executor::Event>(&entropy)?;
        check::<v1::master::Call>(&entropy)?;
        check::<v1::master::Response>(&entropy)?;
        check::<v1::master::Event>(&entropy)?;
        check::<v1::agent::Call>(&entropy)?;
        check::<v1::agent::Response>(&entropy)?;
        check::<v1::MasterInfo>(&entropy)?;
    }

    #[test]
    fn no_bytes_break_the_decoders(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let from_wire = decode_checked::<v1::scheduler::Call>(&bytes);
        let from_text = from_slice::<v1::scheduler::Call>(&bytes);
        // Whatever either accepts is a message that encodes again.
        for call in [from_wire.ok(), from_text.ok()].into_iter().flatten() {
            prop_assert!(decode_checked::<v1::scheduler::Call>(&call.encode_to_vec()).is_ok());
        }
    }
}
