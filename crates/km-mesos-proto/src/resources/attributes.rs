//! The agent's flag `--attributes`: `rack:r1;zone:a;speeds:[1-3]`.

use super::{ParsedValue, ResourceError};
use crate::v1::{Attribute, value};

/// Reads attributes in order. Only the first `:` of an item separates, and spaces in values vanish.
///
/// # Errors
/// An item has no name or no value, or the value is a set or malformed.
pub fn parse(text: &str) -> Result<Vec<Attribute>, ResourceError> {
    text.split([';', '\n']).filter(|item| !item.trim().is_empty()).map(parse_item).collect()
}

/// The same attributes, in any order?
pub fn same(left: &[Attribute], right: &[Attribute]) -> bool {
    let mut rest: Vec<&Attribute> = right.iter().collect();
    let all_found = left.iter().all(|attribute| {
        let found = rest.iter().position(|other| *other == attribute);
        found.map(|index| rest.swap_remove(index)).is_some()
    });
    all_found && rest.is_empty()
}

fn parse_item(item: &str) -> Result<Attribute, ResourceError> {
    let bad = |reason: &str| ResourceError::new(format!("Bad attribute '{}': {reason}", item.trim()));
    let (name, value) = item.split_once(':').ok_or_else(|| bad("must have the form 'name:value'"))?;
    let name = name.trim();
    if name.is_empty() {
        return Err(bad("has no name"));
    }
    let mut attribute = Attribute { name: name.to_owned(), ..Default::default() };
    match ParsedValue::parse(value).map_err(|error| bad(&error.to_string()))? {
        ParsedValue::Scalar(number) => {
            attribute.set_type(value::Type::Scalar);
            attribute.scalar = Some(value::Scalar { value: number });
        }
        ParsedValue::Ranges(ranges) => {
            attribute.set_type(value::Type::Ranges);
            attribute.ranges = Some(ranges.to_proto());
        }
        ParsedValue::Text(text) => {
            attribute.set_type(value::Type::Text);
            attribute.text = Some(value::Text { value: text });
        }
        ParsedValue::Set(_) => return Err(bad("a set can't be an attribute")),
    }
    Ok(attribute)
}
