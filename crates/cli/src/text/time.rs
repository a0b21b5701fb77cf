//! Points in time: RFC 3339 for input and output, and times relative to now for input. Output is always UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use super::units::parse_duration;

const DAY_SECONDS: i64 = 86_400;

/// Returns milliseconds since 1970 by this machine's clock.
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Parses the text that may follow `@` to milliseconds since 1970: a number of milliseconds, `-1h` (that long
/// before now), or RFC 3339 such as `2026-11-20T09:30:00Z`, `2026-11-20T10:30:00.250+01:00` or `2026-11-20`
/// (midnight UTC).
///
/// # Errors
/// The text is none of these.
pub fn parse_instant(text: &str, now_ms: i64) -> Result<i64, String> {
    if let Some(ago) = text.strip_prefix('-') {
        let ago = parse_duration(ago)?;
        return Ok(now_ms.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| format!("'{text}' is too large for milliseconds"));
    }
    parse_rfc3339(text).ok_or_else(|| {
        format!("'{text}' is not a time: expected milliseconds since 1970, 2026-11-20T09:30:00Z, or -1h for an hour ago")
    })
}

fn parse_rfc3339(text: &str) -> Option<i64> {
    let date = text.get(..10)?;
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2).filter(|m| (1..=12).contains(m))?;
    let day = digits(parts.next()?, 2).filter(|d| (1..=days_in_month(year, month)).contains(d))?;
    let seconds = days_from_civil(year, month, day) * DAY_SECONDS;
    match text.get(10..)? {
        "" => Some(seconds * 1000),
        rest => {
            let rest = rest.strip_prefix(['T', 't', ' '])?;
            let (millis, zone) = time_of_day(rest)?;
            Some(seconds * 1000 + millis - zone_seconds(zone)? * 1000)
        }
    }
}

/// Parses `HH:MM:SS` with an optional fraction. Returns milliseconds and the remaining text.
fn time_of_day(text: &str) -> Option<(i64, &str)> {
    let mut parts = text.get(..8)?.split(':');
    let hour = digits(parts.next()?, 2).filter(|h| *h < 24)?;
    let minute = digits(parts.next()?, 2).filter(|m| *m < 60)?;
    // A leap second counts as the second before it.
    let second = digits(parts.next()?, 2).filter(|s| *s <= 60)?.min(59);
    let rest = text.get(8..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            (Some(&rest[..end]).filter(|f| !f.is_empty())?, &rest[end..])
        }
        None => ("0", rest),
    };
    let millis: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    Some((((hour * 60 + minute) * 60 + second) * 1000 + millis, zone))
}

fn zone_seconds(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes().first()? {
        b'Z' | b'z' if zone.len() == 1 => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns days since 1970-01-01. Years start in March here, so that the leap day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + day_of_year - 719_468
}

/// Formats as `2026-11-20T09:30:00.250Z`. -1, Kafka's "no timestamp", becomes `-`.
pub fn format_instant(ms: i64) -> String {
    if ms == -1 {
        return "-".to_owned();
    }
    let (days, rest) = (ms.div_euclid(DAY_SECONDS * 1000), ms.rem_euclid(DAY_SECONDS * 1000));
    let (year, month, day) = civil_from_days(days);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // The day within the 400-year cycle, which starts on 1 March of the year 0.
    let (era, day) = ((days + 719_468).div_euclid(146_097), (days + 719_468).rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let month = (months_since_march + 2) % 12 + 1;
    let year = era * 400 + year + i64::from(month <= 2);
    (year, month, day_of_year - (153 * months_since_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read() {
        for (text, expected) in [
            ("0", 0),
            ("1700000000123", 1_700_000_000_123),
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
            ("2023-11-14t23:13:20.1239+01:00", 1_700_000_000_123),
            ("2023-11-14 17:13:20-05:00", 1_700_000_000_000),
            ("2023-11-14T22:13:20.1234567891Z", 1_700_000_000_123),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("1969-12-31T23:59:59Z", -1000),
            ("-1h", 10_000_000 - 3_600_000),
            ("-90s", 10_000_000 - 90_000),
        ] {
            assert_eq!(parse_instant(text, 10_000_000), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "-",
            "now",
            "2023-13-01",
            "2023-02-29",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:00:00",
            "20230101T000000Z",
            "2023-01-01T00:00Z",
            "2023-01-01T00:00:00,5Z",
            "2023-01-01T00:00:00+0100",
            "12é45",
        ] {
            parse_instant(text, 0).unwrap_err();
        }
    }

    #[test]
    fn writing_inverts_reading() {
        for day in (-1_000_000..1_000_000).step_by(997) {
            let ms = day * DAY_SECONDS * 1000 + 45_296_789;
            let text = format_instant(ms);
            if !text.starts_with('-') && text.len() == 24 {
                assert_eq!(parse_instant(&text, 0), Ok(ms), "{text}");
            }
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        // As `date -u -d @SECONDS --rfc-3339=seconds` prints them.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (68_169_600, "1972-02-29T00:00:00.000Z"),
            (951_825_599, "2000-02-29T11:59:59.000Z"),
            (1_704_067_199, "2023-12-31T23:59:59.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(format_instant(seconds * 1000), expected);
        }
        assert_eq!(format_instant(-1), "-");
        // Kafka takes any number as a timestamp.
        assert_eq!(format_instant(i64::MAX), "292278994-08-17T07:12:55.807Z");
    }
}
