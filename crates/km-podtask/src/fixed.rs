//! Mesos scalars in fixed point: thousandths, as Mesos itself rounds them.

use km_mesos_proto::v1;

const MEGABYTE: i128 = 1024 * 1024;

/// The thousandths of a Mesos scalar, rounded to nearest as Mesos does.
pub fn thousandths(value: f64) -> i64 {
    // The cast saturates, so infinities and NaN (which no valid scalar is) stay harmless.
    (value * 1000.0).round() as i64
}

/// The scalar of so many thousandths.
pub(crate) fn scalar(thousandths: i64) -> v1::value::Scalar {
    v1::value::Scalar { value: thousandths as f64 / 1000.0 }
}

/// Bytes as thousandths of a megabyte, rounded up: what a task must be given to hold so much.
pub fn memory_to_mesos(bytes: i64) -> i64 {
    let exact = i128::from(bytes) * 1000;
    i64::try_from((exact + MEGABYTE - 1).div_euclid(MEGABYTE)).unwrap_or(i64::MAX)
}

/// Thousandths of a megabyte as bytes, rounded up: with how many bytes a task of so much is counted. Whatever is added
/// up in these and fits the bytes of an offer ([`memory_from_mesos`]) fits in Mesos' numbers, too.
pub fn memory_counted(thousandths: i64) -> i64 {
    let exact = i128::from(thousandths) * MEGABYTE;
    i64::try_from((exact + 999).div_euclid(1000)).unwrap_or(i64::MAX)
}

/// Thousandths of a megabyte as bytes, rounded down: what an offer of so much holds.
pub fn memory_from_mesos(thousandths: i64) -> i64 {
    i64::try_from((i128::from(thousandths) * MEGABYTE).div_euclid(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_round_to_a_thousandth() {
        assert_eq!([0.1, 0.25, 0.0004, 0.0006, 3.75].map(thousandths), [100, 250, 0, 1, 3750]);
    }

    #[test]
    fn memory_rounds_up_towards_mesos_and_down_from_it() {
        assert_eq!(memory_to_mesos(64 << 20), 64_000);
        assert_eq!(memory_to_mesos(1), 1);
        assert_eq!(memory_from_mesos(64_000), 64 << 20);
        assert_eq!(memory_from_mesos(1), 1048);
        assert!(memory_from_mesos(memory_to_mesos(123_456_789)) >= 123_456_789);
        assert_eq!([1, 64_000].map(memory_counted), [1049, 64 << 20]);
    }
}
