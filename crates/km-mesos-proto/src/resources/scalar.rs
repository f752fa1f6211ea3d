//! Amounts in fixed point: thousandths, the precision of Mesos.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Sub, SubAssign},
};

/// An amount in thousandths, so that sums are exact: ten times 0.1 is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scalar(pub i64);

impl Scalar {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// A whole number of units. Saturates.
    pub const fn whole(units: i64) -> Self {
        Self(units.saturating_mul(1000))
    }

    /// Rounds to the nearest thousandth, halves away from zero, as Mesos does. Out of range saturates, NaN is zero.
    pub fn from_f64(value: f64) -> Self {
        // A cast from float to integer saturates, which is what is wanted here.
        Self((value * 1000.0).round() as i64)
    }

    /// The nearest floating point number.
    pub fn to_f64(self) -> f64 {
        // Amounts of 2^53 thousandths and more lose thousandths, as they do in every double.
        self.0 as f64 / 1000.0
    }

    /// The amount in thousandths; for `cpus` that is milli-CPUs.
    pub const fn milli(self) -> i64 {
        self.0
    }

    /// Nothing at all?
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Takes away what is there, and no more.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }
}

impl Add for Scalar {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Scalar {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Scalar {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Scalar {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Scalar {
    fn sum<I: Iterator<Item = Self>>(scalars: I) -> Self {
        scalars.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Scalar {
    /// At most three decimals, without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, thousandths) = (self.0.unsigned_abs() / 1000, self.0.unsigned_abs() % 1000);
        let sign = if self.0 < 0 { "-" } else { "" };
        if thousandths == 0 {
            return write!(f, "{sign}{units}");
        }
        let decimals = format!("{thousandths:03}");
        write!(f, "{sign}{units}.{}", decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_prints_thousandths() {
        let cases =
            [(1.5015, "1.502"), (0.0004, "0"), (-0.0005, "-0.001"), (45.55, "45.55"), (1e30, "9223372036854775.807")];
        for (value, text) in cases {
            assert_eq!(Scalar::from_f64(value).to_string(), text, "{value}");
        }
        assert_eq!(std::iter::repeat_n(Scalar::from_f64(0.1), 10).sum::<Scalar>(), Scalar::whole(1));
        assert_eq!(Scalar(1).saturating_sub(Scalar(2)), Scalar::ZERO);
    }
}
