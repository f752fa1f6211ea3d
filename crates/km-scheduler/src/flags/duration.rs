//! Durations on the command line: `42s`, `500ms`, `1h30m`.

use std::time::Duration;

/// Reads a sum of numbers with units `ms`, `s`, `m`, `h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no duration: expected a number and a unit, like 42s, 500ms or 1h30m");
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        let tail = &rest[digits..];
        let end = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let unit = match &tail[..end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        sum += Duration::try_from_secs_f64(number * unit).map_err(|_| bad())?;
        rest = &tail[end..];
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in [("42s", 42_000), ("500ms", 500), ("1h", 3_600_000), ("1h30m", 5_400_000), ("1.5s", 1500)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "1d", "-1s", "1h x"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
