//! The types of the served kinds: what fields they have, how lists and maps merge, what must be there.
//!
//! The table (`schema/v1_37.json`) is read once, at first use. A [`TypeRef`] is a place in it: cheap to copy, alive as
//! long as the program.

mod check;
mod duplicates;
mod openapi;
mod prune;
mod table;

pub use check::{Problems, check};
pub use duplicates::duplicate_fields;
pub use openapi::openapi_v3;
pub use prune::prune;
pub use table::{ListType, Shape, TypeRef};

/// The type of a served kind; group `""` is core.
#[must_use]
pub fn lookup(group: &str, version: &str, kind: &str) -> Option<TypeRef> {
    table::table().kind(group, version, kind)
}

/// All kinds of the table as (group, version, kind).
#[must_use]
pub fn kinds() -> Vec<(&'static str, &'static str, &'static str)> {
    let kinds = table::table().kinds.iter();
    kinds.map(|kind| (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str())).collect()
}

#[cfg(test)]
mod tests;
