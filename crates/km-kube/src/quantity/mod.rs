//! Kubernetes quantities: fixed-point numbers with a unit suffix (`250m`, `1.5Gi`, `1e3`).
//!
//! A value is kept exactly, in billionths (nano), in an `i128`. As in Kubernetes, anything finer than a nano is rounded
//! away from zero. Magnitudes end at 10^27 units, far above what any suffix is used for. The suffix family of the text
//! is kept for printing.

mod format;
mod parse;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};

/// Billionths per unit.
pub(crate) const NANO: i128 = 1_000_000_000;
/// Largest magnitude, in billionths: 10^27 units.
pub(crate) const MAX_NANOS: i128 = 10_i128.pow(36);

/// The family of suffixes in which a quantity is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `n u m "" k M G T P E`
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`
    BinarySi,
    /// `e3`, `E6`, `e-3`
    DecimalExponent,
}

/// A quantity. Equality and order look at the value alone: `1Gi == 1024Mi`.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not start with a number.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (got {0:?})")]
    NoNumber(String),
    /// The part after the number is no known suffix or exponent.
    #[error("unable to parse quantity's suffix (got {0:?})")]
    Suffix(String),
}

impl Quantity {
    /// Zero, printed as `0`.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// When the text is not `[sign]digits[.digits][suffix]` with a suffix of one of the three families.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// A quantity of thousandths, e.g. milli-CPUs.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * 1_000_000, format: Format::DecimalSi }
    }

    /// A quantity of whole units, printed with decimal suffixes.
    #[must_use]
    pub fn from_value(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANO, format: Format::DecimalSi }
    }

    /// A quantity of bytes, printed with binary suffixes.
    #[must_use]
    pub fn from_bytes(bytes: i64) -> Self {
        Self { nanos: i128::from(bytes) * NANO, format: Format::BinarySi }
    }

    /// Whole units, rounded up; ends of `i64` when beyond them.
    #[must_use]
    pub fn value(&self) -> i64 {
        saturate(div_ceil(self.nanos, NANO))
    }

    /// Thousandths, rounded up; ends of `i64` when beyond them.
    #[must_use]
    pub fn milli(&self) -> i64 {
        saturate(div_ceil(self.nanos, 1_000_000))
    }

    /// The exact value in billionths.
    #[must_use]
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The suffix family it is printed in.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn new(nanos: i128, format: Format) -> Self {
        Self { nanos: nanos.clamp(-MAX_NANOS, MAX_NANOS), format }
    }
}

/// Division rounded towards positive infinity; `by` is positive.
fn div_ceil(value: i128, by: i128) -> i128 {
    let floor = value.div_euclid(by);
    if value.rem_euclid(by) == 0 { floor } else { floor + 1 }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The sum keeps the family of the left side, or of the right side when the left is zero (as Kubernetes does).
impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self::new(self.nanos.saturating_add(other.nanos), format)
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self { nanos: -self.nanos, format: self.format }
    }
}

impl Mul<i64> for Quantity {
    type Output = Self;
    fn mul(self, times: i64) -> Self {
        Self::new(self.nanos.saturating_mul(i128::from(times)), self.format)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, |sum, item| sum + item)
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = QuantityError;
    fn try_from(typed: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, QuantityError> {
        Self::parse(&typed.0)
    }
}

impl From<Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a JSON string, or a bare JSON number as Kubernetes does.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = match &value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Number(number) => number.to_string(),
            other => return Err(serde::de::Error::custom(format!("expected a quantity, got {other}"))),
        };
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
