//! Compact JSON text in pure ASCII.
//!
//! Some Mesos clients cut the event stream by characters although lengths are in bytes; with ASCII both agree.

use std::io;

use serde::Serialize;
use serde_json::{Serializer, ser::Formatter};

/// Any value as compact JSON with `\uXXXX` for what isn't ASCII.
///
/// # Panics
/// When `value` has no JSON form: its own `Serialize` fails, or a map has keys that aren't text.
pub fn to_ascii_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    // Writing to memory can't fail; the other reasons are documented above.
    value.serialize(&mut Serializer::with_formatter(&mut text, Ascii)).expect("the value has a JSON form");
    text
}

/// As [`to_ascii_vec`].
pub fn to_ascii_string<T: Serialize + ?Sized>(value: &T) -> String {
    // The formatter below writes ASCII only.
    String::from_utf8(to_ascii_vec(value)).expect("ASCII is UTF-8")
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(start) = rest.find(|character: char| !character.is_ascii()) {
            let (plain, tail) = rest.split_at(start);
            writer.write_all(plain.as_bytes())?;
            let end = tail.find(|character: char| character.is_ascii()).unwrap_or(tail.len());
            for unit in tail[..end].encode_utf16() {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &tail[end..];
        }
        writer.write_all(rest.as_bytes())
    }
}
