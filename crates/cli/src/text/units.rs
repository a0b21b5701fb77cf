//! Durations, sizes and rates.

use std::time::Duration;

/// Parses `500ms`, `30s`, `5m`, `1h`, `7d`. A number without a unit is in seconds.
///
/// # Errors
/// The text is not a duration, or the duration is too long.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit_ms = match &text[end..] {
        "ms" => 1.0,
        "s" | "" => 1e3,
        "m" | "min" => 6e4,
        "h" => 3.6e6,
        "d" => 8.64e7,
        _ => return Err(format!("'{text}' is not a time: expected, for example, 500ms, 30s, 5m, 1h or 7d")),
    };
    let number: f64 = text[..end]
        .parse()
        .map_err(|_| format!("'{text}' is not a time: expected, for example, 500ms, 30s, 5m, 1h or 7d"))?;
    Duration::try_from_secs_f64(number * unit_ms / 1e3).map_err(|_| format!("'{text}' is too long"))
}

/// Parses a number of bytes: `4096`, `64KiB`, `8MiB`, `1GiB`. `K`, `M`, `G` mean the same powers of 1024.
///
/// # Errors
/// The text is not a size, or the size is 2^64 or more.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[end..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return Err(format!("'{text}' is not a size: expected, for example, 4096, 64KiB or 8MiB")),
    };
    let number: u64 =
        text[..end].parse().map_err(|_| format!("'{text}' is not a size: expected, for example, 64KiB"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

/// Works as [`parse_duration`], but requires a unit, for options where a bare number would be ambiguous.
///
/// # Errors
/// As [`parse_duration`], or there is no unit.
pub fn duration_with_unit(text: &str) -> Result<Duration, String> {
    if is_bare(text) {
        return Err(format!("'{text}' has no unit: expected, for example, {text}ms or {text}s"));
    }
    parse_duration(text)
}

/// Works as [`parse_bytes`], but requires a unit, for options where a bare number would be ambiguous.
///
/// # Errors
/// As [`parse_bytes`], or there is no unit.
pub fn bytes_with_unit(text: &str) -> Result<u64, String> {
    if is_bare(text) {
        return Err(format!("'{text}' has no unit: expected, for example, {text}MiB, {text}KiB or {text}B"));
    }
    parse_bytes(text)
}

fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Parses a rate per second: `1000`, `1000/s`, `20k`, `1.5M` (powers of 1,000).
///
/// # Errors
/// The text is not a rate, or the rate is not above 0, or above 1e9.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a rate: expected, for example, 1000, 20k or 20k/s");
    let number = text.strip_suffix("/s").unwrap_or(text);
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let scale = match &number[end..] {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        _ => return Err(wrong()),
    };
    let number: f64 = number[..end].parse().map_err(|_| wrong())?;
    let rate = number * scale;
    if rate > 0.0 && rate <= 1e9 { Ok(rate) } else { Err(wrong()) }
}

/// Formats as `45 s`, `12 min`, `3 h 20 min`, `2 d 18 h`: two units at most.
pub fn duration(seconds: f64) -> String {
    let whole = if seconds < 1e15 { seconds.round().max(0.0) as u64 } else { return "very long".to_owned() };
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match whole {
        0..120 => format!("{whole} s"),
        120..3600 => format!("{minutes} min"),
        3600..86_400 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Formats sorted numbers as ranges: `0-2,5`.
pub fn runs(numbers: &[i32]) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if number.checked_sub(1) == Some(*last) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |&(first, last): &(i32, i32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// Formats as `1 record`, `2 records`.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats as `12.3 MB`: powers of 1000, about three digits.
pub fn bytes(count: f64) -> String {
    scaled(count, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// Formats as `1.23 M`: a count in powers of 1000.
pub fn count(count: f64) -> String {
    scaled(count, &["", "k", "M", "G", "T"]).trim_end().to_owned()
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("2", 2_000), ("1.5m", 90_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)));
        }
        for wrong in ["", "s", "-1s", "1x", "1.2.3s", "99999999999999999999d"] {
            parse_duration(wrong).unwrap_err();
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("10"), Ok(10));
        parse_bytes("1TB").unwrap_err();
        parse_bytes("99999999999G").unwrap_err();
    }

    #[test]
    fn rates() {
        for (text, expected) in [("1", 1.0), ("2.5/s", 2.5), ("20k", 2e4), ("1.5M/s", 1.5e6)] {
            assert_eq!(parse_rate(text), Ok(expected));
        }
        for wrong in ["", "0", "-1", "k", "1/m", "1kk", "9999999M"] {
            parse_rate(wrong).unwrap_err();
        }
    }

    #[test]
    fn durations_are_short() {
        for (seconds, expected) in [
            (0.4, "0 s"),
            (119.0, "119 s"),
            (120.0, "2 min"),
            (12_000.0, "3 h 20 min"),
            (238_418.0, "2 d 18 h"),
            (f64::INFINITY, "very long"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn scaled_numbers_have_three_digits() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(1234.0), "1.23 kB");
        assert_eq!(bytes(12_345_678.0), "12.3 MB");
        assert_eq!(count(1_000_000.0), "1.00 M");
        assert_eq!(count(17.0), "17");
    }
}
