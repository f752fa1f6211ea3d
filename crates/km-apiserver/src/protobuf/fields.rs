//! The table of field numbers, read from `protobuf/fields.txt` at first use (its README tells the form).

use std::{collections::HashMap, sync::LazyLock};

const TEXT: &str = include_str!("../../protobuf/fields.txt");

/// One field of a message.
pub struct Field {
    pub number: u32,
    /// `-` when the fields of the message lie in the enclosing object.
    pub name: String,
    pub shape: Shape,
    pub of: Of,
}

/// How often a field occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    One,
    List,
    Map,
}

/// What a field is.
pub enum Of {
    Text,
    Bytes,
    Integer,
    Flag,
    Double,
    Message(String),
}

/// The fields of a message type, if it is known.
pub fn of(type_name: &str) -> Option<&'static [Field]> {
    static TABLE: LazyLock<HashMap<&'static str, Vec<Field>>> =
        LazyLock::new(|| TEXT.lines().filter_map(line).collect());
    TABLE.get(type_name).map(Vec::as_slice)
}

fn line(text: &'static str) -> Option<(&'static str, Vec<Field>)> {
    let mut parts = text.split(' ');
    let name = parts.next()?;
    Some((name, parts.filter_map(field).collect()))
}

fn field(text: &str) -> Option<Field> {
    let mut parts = text.splitn(3, '=');
    let (number, name, code) = (parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?);
    let (shape, code) = match code.split_at_checked(1)? {
        ("*", rest) => (Shape::List, rest),
        ("%", rest) => (Shape::Map, rest),
        _ => (Shape::One, code),
    };
    let of = match code {
        "s" => Of::Text,
        "y" => Of::Bytes,
        "i" => Of::Integer,
        "b" => Of::Flag,
        "d" => Of::Double,
        message => Of::Message(message.strip_prefix("m:")?.to_owned()),
    };
    Some(Field { number, name, shape, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_and_field_is_understood() {
        for text in TEXT.lines() {
            let (name, fields) = line(text).unwrap();
            assert_eq!(fields.len(), text.split(' ').skip(1).filter(|part| !part.is_empty()).count(), "{name}");
        }
        assert!(of("api.core.v1.Pod").is_some());
    }
}
