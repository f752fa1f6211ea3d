//! Mesos: framing, both encodings, resources, attributes, addresses.

use std::mem::{Discriminant, discriminant};

use km_mesos_client::{MasterAddress, duration};
use km_mesos_proto::{
    Message, decode_checked, json as dialect,
    recordio::{self, Decoder},
    resources::{Limits, Quantities, Resources, attributes as attribute_syntax},
    v1,
};

use crate::text;

/// Longest record that is taken.
const LONGEST: usize = 1 << 10;

/// The first byte says how long the chunks are: chunks carry no meaning. What was read can be written and read again.
pub fn recordio(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let whole = records(std::iter::once(stream));
    assert_eq!(whole, records(stream.chunks(usize::from(size).max(1))), "chunks carry no meaning");
    let written: Vec<u8> =
        whole.0.iter().filter(|record| !record.is_empty()).flat_map(|r| recordio::encode(r)).collect();
    let kept: Vec<Vec<u8>> = whole.0.into_iter().filter(|record| !record.is_empty()).collect();
    assert_eq!(records(std::iter::once(&written[..])), (kept, None), "what was written is read");
}

/// The records, and of which kind the error is that ends them: how much of the rest it shows is a matter of chunks.
fn records<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Option<Discriminant<recordio::Error>>) {
    let (mut decoder, mut records) = (Decoder::new(LONGEST), Vec::new());
    for chunk in chunks {
        decoder.push(chunk);
        loop {
            match decoder.next() {
                Ok(Some(record)) => records.push(record.to_vec()),
                Ok(None) => break,
                Err(error) => return (records, Some(discriminant(&error))),
            }
        }
    }
    (records, None)
}

/// Calls a function for each kind of message that comes from outside.
macro_rules! of_each_kind {
    ($check:ident, $data:expr) => {
        $check::<v1::scheduler::Call>($data);
        $check::<v1::scheduler::Event>($data);
        $check::<v1::executor::Call>($data);
        $check::<v1::executor::Event>($data);
        $check::<v1::master::Call>($data);
        $check::<v1::agent::Call>($data);
    };
}

/// A message that was read from JSON is written in a form that says the same.
pub fn json(data: &[u8]) {
    fn check<M: Message>(data: &[u8]) {
        dialect::from_slice::<M>(data).iter().for_each(writes_the_same);
    }
    of_each_kind!(check, data);
}

/// A message that was read from protobuf is written in JSON that says the same.
pub fn protobuf(data: &[u8]) {
    fn check<M: Message>(data: &[u8]) {
        decode_checked::<M>(data).iter().for_each(writes_the_same);
    }
    of_each_kind!(check, data);
}

/// Compared as text, since a number that is none is not equal to itself.
fn writes_the_same<M: Message>(message: &M) {
    let written = dialect::to_string(message);
    let again: M = dialect::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(dialect::to_string(&again), written);
}

/// The flag `--resources`: printed and converted without loss, and the algebra's laws hold.
pub fn resources(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let (left, right) = text.split_once('\n').unwrap_or((text, ""));
    let (Ok(left), Ok(right)) = (Resources::parse(left, "*"), Resources::parse(right, "role")) else { return };
    assert_eq!(Resources::from_protos(&left.to_protos()).as_ref(), Ok(&left), "messages hold all of it");
    let mut both = left.clone();
    right.iter().for_each(|resource| both.insert(resource.clone()));
    assert!(both.contains(&left) && both.contains(&right), "{both} holds {left} and {right}");
    let mut rest = both.clone();
    right.iter().for_each(|resource| rest.remove(resource));
    assert_eq!(rest, left, "what was added is taken away");
    let shown = Quantities::of(&both).to_string();
    if let Ok(quantities) = Quantities::parse(&shown) {
        assert_eq!(quantities, Quantities::of(&both), "{shown}");
    }
}

/// The flag `--attributes`, and lists of quantities and limits.
pub fn attributes(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(attributes) = attribute_syntax::parse(text) {
        let reversed: Vec<v1::Attribute> = attributes.iter().rev().cloned().collect();
        assert!(attribute_syntax::same(&attributes, &reversed), "their order says nothing");
    }
    // That there are none is shown as `{}`.
    if let Some(quantities) = Quantities::parse(text).ok().filter(|quantities| !quantities.is_empty()) {
        assert_eq!(Quantities::parse(&quantities.to_string()), Ok(quantities));
    }
    if let Some(limits) = Limits::parse(text).ok().filter(|limits| limits.iter().next().is_some()) {
        assert_eq!(Limits::parse(&limits.to_string()), Ok(limits));
    }
}

/// Addresses of masters, and durations of flags.
pub fn addresses(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(MasterAddress::List(masters) | MasterAddress::Https(masters)) = text.parse() {
        let shown: Vec<String> = masters.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join(",").parse(), Ok(MasterAddress::List(masters)), "{shown:?}");
    }
    if let Ok(length) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::format(length)), Ok(length));
    }
}
