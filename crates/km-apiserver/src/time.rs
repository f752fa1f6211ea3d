//! Times as Kubernetes writes them.

use jiff::Timestamp;

/// Now, to the second: `2026-01-02T03:04:05Z`.
pub fn now() -> String {
    seconds(Timestamp::now())
}

/// A time to the second.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads a time of an object.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// How long ago a time is, as tables show it; `<unknown>` without a time.
pub fn age(since: Option<&str>) -> String {
    match since.and_then(parse) {
        Some(time) => human(Timestamp::now().as_second() - time.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// A span of seconds with two units at most, as kubectl prints ages: `45s`, `3m5s`, `2d4h`, `400d`.
pub fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |whole: i64, unit: &str, part: i64, part_unit: &str| {
        if part == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{part}{part_unit}") }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (3600, "60m"),
            (11_100, "3h5m"),
            (90_000, "25h"),
            (187_200, "2d4h"),
            (34_560_000, "400d"),
            (66_000_000, "2y33d"),
            (-5, "<invalid>"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }
}
