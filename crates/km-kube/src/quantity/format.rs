//! Quantity to text, in canonical form: the largest suffix of the family that leaves an integer.

use super::{Format, NANO, Quantity};
use std::fmt;

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return out.write_str("0");
        }
        let whole = self.nanos % NANO == 0;
        // Small or fractional amounts are never shown with a binary suffix: that would lose precision.
        let binary = self.format == Format::BinarySi && whole && self.nanos.abs() >= 1024 * NANO;
        if binary {
            let (number, power) = reduced(self.nanos / NANO, 1024, BINARY.len() - 1);
            return write!(out, "{number}{}", BINARY[power]);
        }
        if self.format == Format::DecimalExponent {
            let (number, power) = reduced(self.nanos, 1000, 12);
            let exponent = i64::try_from(power).unwrap_or(0) * 3 - 9;
            return if exponent == 0 { write!(out, "{number}") } else { write!(out, "{number}e{exponent}") };
        }
        let (number, power) = reduced(self.nanos, 1000, DECIMAL.len() - 1);
        write!(out, "{number}{}", DECIMAL[power])
    }
}

/// Divides by `base` while it leaves no rest, at most `most` times.
fn reduced(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut power = 0;
    while power < most && number % base == 0 {
        number /= base;
        power += 1;
    }
    (number, power)
}
