//! Go's durations: `1h2m3.5s`.

use super::{MILLISECOND, MINUTE, Nanos, SECOND};

const UNITS: [(&str, Nanos); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", 60 * MINUTE),
];

/// A duration in Go's syntax; none if the text is not one or is out of range.
pub(crate) fn parse_duration(text: &str) -> Option<Nanos> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (value, after) = step(rest)?;
        sum = sum.checked_add(value).filter(|sum| *sum <= 1 << 63)?;
        rest = after;
    }
    if negative { Some((sum as i64).wrapping_neg()) } else { i64::try_from(sum).ok() }
}

/// One number with its unit.
fn step(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let (_, unit) = UNITS.iter().find(|(known, _)| *known == name)?;
    let unit = unit.unsigned_abs();
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok().filter(|n| *n <= 1 << 63)? };
    let value = whole.checked_mul(unit).filter(|value| *value <= 1 << 63)?;
    Some((value.checked_add(fraction_of(fraction, unit)).filter(|value| *value <= 1 << 63)?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

/// As Go computes it: digits beyond what fits are dropped, and the product is a floating-point one.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes().map(|byte| u64::from(byte - b'0')) {
        if value > (i64::MAX as u64) / 10 || value * 10 + digit > 1 << 63 {
            break;
        }
        value = value * 10 + digit;
        scale *= 10.0;
    }
    if value == 0 { 0 } else { (value as f64 * (unit as f64 / scale)) as u64 }
}

/// A duration as Go prints it: `2m0s`, `1.5s`, `100ms`.
pub(crate) fn format_duration(nanos: Nanos) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let value = nanos.unsigned_abs();
    let second = SECOND.unsigned_abs();
    if value == 0 {
        return "0s".to_owned();
    }
    if value < second {
        let (unit, name, digits) = match value {
            0..1_000 => (1, "ns", 0),
            1_000..1_000_000 => (1_000, "\u{b5}s", 3),
            _ => (1_000_000, "ms", 6),
        };
        return format!("{sign}{}{name}", decimal(value / unit, value % unit, digits));
    }
    let (hours, minutes) = (value / second / 3600, value / second / 60 % 60);
    let seconds = decimal(value / second % 60, value % second, 9);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(whole: u64, fraction: u64, digits: usize) -> String {
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let known = [
            ("0", Some(0)),
            ("1s", Some(SECOND)),
            ("+1h2m3.5s", Some(3_723_500_000_000)),
            ("-1.5ms", Some(-1_500_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(SECOND)),
            ("1us", Some(1_000)),
            ("1.5us", Some(1_500)),
            ("5s", Some(5 * SECOND)),
            ("-10ms", Some(-10 * MILLISECOND)),
            ("1\u{b5}s1\u{3bc}s", Some(2_000)),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775808ns", None),
            ("", None),
            ("-", None),
            (".s", None),
            ("1", None),
            ("1x", None),
            ("1d", None),
            ("5 s", None),
            ("1 s", None),
            ("s", None),
            ("99999999999h", None),
        ];
        for (text, nanos) in known {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        let known = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (1_500, "1.5\u{b5}s"),
            (100 * MILLISECOND, "100ms"),
            (1_500 * MILLISECOND, "1.5s"),
            (2 * MINUTE, "2m0s"),
            (90 * MINUTE, "1h30m0s"),
            (MINUTE, "1m0s"),
            (3_690 * SECOND, "1h1m30s"),
            (-2 * SECOND, "-2s"),
            (-SECOND, "-1s"),
        ];
        for (nanos, text) in known {
            assert_eq!(format_duration(nanos), text);
        }
    }
}
