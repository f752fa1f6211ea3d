//! Text to quantity. The grammar is the one documented at `k8s.io/apimachinery/pkg/api/resource`.

use super::{Format, MAX_NANOS, Quantity, QuantityError};

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    let no_number = || QuantityError::NoNumber(text.to_owned());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(no_number());
    }
    let scale = Scale::of(suffix).ok_or_else(|| QuantityError::Suffix(text.to_owned()))?;
    let magnitude = scaled(whole, fraction, &scale);
    Ok(Quantity::new(if negative { -magnitude } else { magnitude }, scale.format))
}

/// What a suffix multiplies with: `2^binary · 10^decimal`.
struct Scale {
    format: Format,
    binary: u32,
    decimal: i64,
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let si = |decimal| Some(Self { format: Format::DecimalSi, binary: 0, decimal });
        let binary = |binary| Some(Self { format: Format::BinarySi, binary, decimal: 0 });
        match suffix {
            "" => si(0),
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let digits = suffix.strip_prefix(['e', 'E'])?;
                // `parse` alone would take any text that i64 takes; the grammar wants a sign and digits, as it does.
                let decimal: i64 = digits.parse().ok()?;
                Some(Self { format: Format::DecimalExponent, binary: 0, decimal })
            }
        }
    }
}

/// `whole.fraction · scale` in billionths: rounded away from zero to a nano, capped at the largest magnitude.
fn scaled(whole: &str, fraction: &str, scale: &Scale) -> i128 {
    let digits: String = whole.chars().chain(fraction.chars()).collect();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let fraction_digits = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    // value in nanos = digits · 10^exponent · 2^binary
    let exponent = scale.decimal.saturating_add(9).saturating_sub(fraction_digits);
    let places = i64::try_from(digits.len()).unwrap_or(i64::MAX).saturating_add(exponent);
    if places > 37 {
        return MAX_NANOS;
    }
    if places < -20 {
        return 1;
    }
    if exponent >= 0 {
        // At most 37 digits here, which an i128 holds.
        let value = digits.bytes().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        let value = value.saturating_mul(10_i128.pow(u32::try_from(exponent).unwrap_or(0)));
        return value.saturating_mul(1_i128 << scale.binary).min(MAX_NANOS);
    }
    divided(digits, exponent.unsigned_abs(), scale.binary)
}

/// `digits · 2^binary / 10^dropped`, rounded up. Long fractions are cut after what an `i128` can carry.
fn divided(digits: &str, dropped: u64, binary: u32) -> i128 {
    let mut keep = digits.len();
    let mut dropped = dropped;
    let mut inexact = false;
    // An i128 holds 10^37, and 10^19 · 2^60: digits beyond only decide whether to round up.
    let most = if binary == 0 { 37 } else { 19 };
    while keep > most && dropped > 0 {
        keep -= 1;
        dropped -= 1;
        inexact |= digits.as_bytes()[keep] != b'0';
    }
    let value = digits.as_bytes()[..keep].iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    let value = value.saturating_mul(1_i128 << binary);
    if dropped > 37 {
        return 1;
    }
    let divisor = 10_i128.pow(u32::try_from(dropped).unwrap_or(37));
    let floor = value / divisor;
    (if value % divisor != 0 || inexact { floor + 1 } else { floor }).min(MAX_NANOS)
}
