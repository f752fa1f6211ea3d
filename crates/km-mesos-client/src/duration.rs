//! Durations as Mesos writes them: `15mins`, `5secs`, `1.5hrs`.

use std::time::Duration;

/// Units with their lengths in nanoseconds, longest first.
const UNITS: [(&str, u64); 8] = [
    ("weeks", 7 * 24 * 3_600_000_000_000),
    ("days", 24 * 3_600_000_000_000),
    ("hrs", 3_600_000_000_000),
    ("mins", 60_000_000_000),
    ("secs", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];

/// Reads a number and a unit.
///
/// # Errors
/// Says what is wrong and which units there are.
pub fn parse(text: &str) -> Result<Duration, String> {
    let bad = |reason: &str| {
        let units = UNITS.map(|(unit, _)| unit).join(", ");
        format!("'{text}' {reason}, expected a number and one of the units {units}")
    };
    let start = text.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (number, unit) = text.split_at(start.ok_or_else(|| bad("has no unit"))?);
    let length = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| bad("has an unknown unit"))?.1;
    if let Ok(whole) = number.parse::<u64>() {
        let nanos = whole.checked_mul(length).ok_or_else(|| bad("is too long"))?;
        return Ok(Duration::from_nanos(nanos));
    }
    let number: f64 = number.parse().map_err(|_| bad("has no number"))?;
    Duration::try_from_secs_f64(number * Duration::from_nanos(length).as_secs_f64()).map_err(|_| bad("is too long"))
}

/// Writes a duration in the longest unit that gives a whole number.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0ns".to_owned();
    }
    let fitting = UNITS.iter().find(|(_, length)| nanos.is_multiple_of(u128::from(*length)));
    // Every number of nanoseconds is a multiple of the last unit.
    let (unit, length) = fitting.unwrap_or(&UNITS[UNITS.len() - 1]);
    format!("{}{unit}", nanos / u128::from(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_both_directions() {
        let cases = [
            ("15mins", 900_000, "15mins"),
            ("5secs", 5000, "5secs"),
            ("1.5mins", 90_000, "90secs"),
            ("1hrs", 3_600_000, "1hrs"),
            ("2weeks", 1_209_600_000, "2weeks"),
            ("1day", 0, ""),
            ("250ms", 250, "250ms"),
            ("0secs", 0, "0ns"),
            ("5", 0, ""),
            ("secs", 0, ""),
            ("-5secs", 0, ""),
            ("1.2.3secs", 0, ""),
            ("99999999999999weeks", 0, ""),
        ];
        for (text, millis, shown) in cases {
            match parse(text) {
                Ok(duration) => {
                    assert_eq!((duration.as_millis(), format(duration).as_str()), (millis, shown), "{text}")
                }
                Err(error) => assert!(shown.is_empty() && error.contains(text), "{text}: {error}"),
            }
        }
    }
}
