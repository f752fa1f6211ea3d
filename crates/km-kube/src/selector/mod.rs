//! Label and field selectors, as query text (`a in (b,c),!d`, `spec.nodeName=n1`) and as objects.

mod field;
mod label;
mod label_text;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator};

/// Why a selector cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text does not follow the grammar.
    #[error("unable to parse requirement: {0}")]
    Syntax(String),
    /// A key or value breaks the rule for label keys or values.
    #[error("{0}")]
    Invalid(String),
}

#[cfg(test)]
mod tests;
