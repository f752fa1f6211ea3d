//! Values in text form, as the flags `--resources` and `--attributes` hold them.

use std::{collections::BTreeSet, ops::RangeInclusive};

use super::{Ranges, ResourceError, Scalar};

/// How much of a resource there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An amount, such as CPUs.
    Scalar(Scalar),
    /// Numbers, such as ports.
    Ranges(Ranges),
    /// Named things.
    Set(BTreeSet<String>),
}

impl Value {
    /// Nothing of it?
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Scalar(scalar) => scalar.is_zero(),
            Self::Ranges(ranges) => ranges.is_empty(),
            Self::Set(items) => items.is_empty(),
        }
    }

    /// The amount, or how many numbers or things there are.
    pub fn quantity(&self) -> Scalar {
        match self {
            Self::Scalar(scalar) => *scalar,
            Self::Ranges(ranges) => Scalar::whole(i64::try_from(ranges.len()).unwrap_or(i64::MAX)),
            Self::Set(items) => Scalar::whole(i64::try_from(items.len()).unwrap_or(i64::MAX)),
        }
    }

    pub(super) fn same_type(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(whole), Self::Scalar(part)) => part <= whole,
            (Self::Ranges(whole), Self::Ranges(part)) => whole.contains_all(part),
            (Self::Set(whole), Self::Set(part)) => part.is_subset(whole),
            _ => false,
        }
    }

    /// Adds a value of the same type.
    pub(super) fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Scalar(sum), Self::Scalar(more)) => *sum += *more,
            (Self::Ranges(sum), Self::Ranges(more)) => sum.add(more),
            (Self::Set(sum), Self::Set(more)) => sum.extend(more.iter().cloned()),
            _ => {}
        }
    }

    /// Takes a value of the same type away. What is more than there is takes all.
    pub(super) fn subtract(&mut self, other: &Self) {
        match (self, other) {
            (Self::Scalar(rest), Self::Scalar(less)) => *rest = rest.saturating_sub(*less),
            (Self::Ranges(rest), Self::Ranges(less)) => rest.subtract(less),
            (Self::Set(rest), Self::Set(less)) => rest.retain(|item| !less.contains(item)),
            _ => {}
        }
    }

    /// At most `quantity` of it.
    pub(super) fn shrink(&self, quantity: Scalar) -> Self {
        let count = u64::try_from(quantity.milli() / 1000).unwrap_or(0);
        match self {
            Self::Scalar(scalar) => Self::Scalar(*scalar.min(&quantity)),
            Self::Ranges(ranges) => Self::Ranges(ranges.take(count)),
            Self::Set(items) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                Self::Set(items.iter().take(count).cloned().collect())
            }
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Ranges(ranges) => ranges.fmt(f),
            Self::Set(items) => write!(f, "{{{}}}", items.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// A value as it was written: a set may repeat an item, and text is not a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum ParsedValue {
    /// A finite number.
    Scalar(f64),
    /// `[1-3, 5-5]`, merged.
    Ranges(Ranges),
    /// `{a, b}`, in order of writing.
    Set(Vec<String>),
    /// Anything else, without its spaces.
    Text(String),
}

impl ParsedValue {
    /// Reads a number, `[begin-end, …]`, `{item, …}` or plain text. Spaces mean nothing and vanish, even inside text.
    pub fn parse(text: &str) -> Result<Self, ResourceError> {
        let text: String = text.chars().filter(|character| *character != ' ').collect();
        if text.is_empty() {
            return Err(ResourceError::new("expecting a value, got an empty string"));
        }
        for (open, close) in [('{', '}'), ('[', ']'), ('(', ')')] {
            if !brackets_match(&text, open, close) {
                return Err(ResourceError::new(format!("'{open}' and '{close}' don't match in '{text}'")));
            }
        }
        if let Some(inner) = enclosed(&text, '[', ']') {
            return inner.map(parse_range).collect::<Result<_, _>>().map(Self::Ranges);
        }
        if let Some(items) = enclosed(&text, '{', '}') {
            return Ok(Self::Set(items.map(str::to_owned).collect()));
        }
        if text.contains(['[', '{']) {
            return Err(ResourceError::new(format!("'[' or '{{' may only stand first in a value, got '{text}'")));
        }
        match text.parse::<f64>() {
            Ok(number) if number == 0.0 || number.is_normal() => Ok(Self::Scalar(number)),
            Ok(_) => Err(ResourceError::new(format!("expecting a finite number, got '{text}'"))),
            Err(_) => Ok(Self::Text(text)),
        }
    }
}

fn brackets_match(text: &str, open: char, close: char) -> bool {
    let mut depth = 0i32;
    for character in text.chars() {
        depth += i32::from(character == open) - i32::from(character == close);
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// The non-empty items between the brackets, if the text is exactly one pair of them.
fn enclosed(text: &str, open: char, close: char) -> Option<impl Iterator<Item = &str>> {
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    let plain = !inner.contains(['[', ']', '{', '}']);
    plain.then(|| inner.split([',', '\n']).filter(|item| !item.is_empty()))
}

fn parse_range(text: &str) -> Result<RangeInclusive<u64>, ResourceError> {
    let bad = || ResourceError::new(format!("expecting a range 'begin-end' of whole numbers, got '{text}'"));
    let (begin, end) = text.split_once('-').ok_or_else(bad)?;
    let range = begin.parse().map_err(|_| bad())?..=end.parse().map_err(|_| bad())?;
    if range.is_empty() { Err(bad()) } else { Ok(range) }
}
