//! Field selectors: `path=value,path!=value`, with `\\`, `\,` and `\=` escaped in values.
//!
//! Which paths a kind offers is the API server's knowledge; here the caller gives the value of a path.

use super::SelectorError;
use std::fmt;

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    pub value: String,
    /// `!=` instead of `=`.
    pub negated: bool,
}

/// All requirements must hold; without any it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads a query text. Empty text matches everything.
    ///
    /// # Errors
    /// When a term has no `=`, `==` or `!=`, or an escape is not one of `\\`, `\,`, `\=`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let terms = split_terms(text);
        let requirements = terms.into_iter().filter(|term| !term.is_empty()).map(requirement);
        Ok(Self { requirements: requirements.collect::<Result<_, _>>()? })
    }

    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that a field must equal, if one is asked for.
    #[must_use]
    pub fn requires(&self, field: &str) -> Option<&str> {
        let mut exact = self.requirements.iter().filter(|requirement| !requirement.negated);
        exact.find(|requirement| requirement.field == field).map(|requirement| requirement.value.as_str())
    }

    /// `value_of` gives the value of a field, the empty text when it is unset.
    #[must_use]
    pub fn matches(&self, mut value_of: impl FnMut(&str) -> String) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (value_of(&requirement.field) == requirement.value) != requirement.negated)
    }
}

fn requirement(term: &str) -> Result<FieldRequirement, SelectorError> {
    let syntax = || {
        SelectorError::Syntax(format!(
            "invalid selector: '{term}'; can't understand it: want field=value or field!=value"
        ))
    };
    let (at, sign) = term
        .char_indices()
        .find_map(|(at, _)| ["!=", "==", "="].into_iter().find(|sign| term[at..].starts_with(sign)).map(|s| (at, s)))
        .ok_or_else(syntax)?;
    let value = unescape(&term[at + sign.len()..])?;
    Ok(FieldRequirement { field: term[..at].to_owned(), value, negated: sign == "!=" })
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                _ => {
                    return Err(SelectorError::Syntax(format!(
                        "invalid field selector: invalid escape sequence in {text:?}"
                    )));
                }
            },
            '=' => {
                return Err(SelectorError::Syntax(format!(
                    "invalid field selector: unescaped character in value: {text:?}"
                )));
            }
            plain => out.push(plain),
        }
    }
    Ok(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let value = requirement.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            let comma = if index > 0 { "," } else { "" };
            let sign = if requirement.negated { "!=" } else { "=" };
            write!(out, "{comma}{}{sign}{value}", requirement.field)?;
        }
        Ok(())
    }
}
