//! Points in time as Go reads and writes them in JSON: RFC 3339 with nanoseconds.

use std::fmt;

use serde::{Serialize, Serializer};

const DAY: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;
/// Seconds from year 1, where Go's zero time lies, to 1970.
const ZERO_SECONDS: i64 = -62_135_596_800;
/// Go's layout of RFC 3339, and its parts as errors name them.
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// A point in time, with the offset of the zone in which it was written. Go keeps that offset, so an answer
/// repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970.
    seconds: i64,
    nanos: u32,
    offset_seconds: i32,
}

impl Time {
    /// Go's zero time, which JetStream writes for "never".
    pub const ZERO: Self = Self { seconds: ZERO_SECONDS, nanos: 0, offset_seconds: 0 };

    /// The time that is so many nanoseconds after 1970, in UTC.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        let second = super::SECOND;
        let rest = u32::try_from(nanos.rem_euclid(second)).unwrap_or(0);
        Self { seconds: nanos.div_euclid(second), nanos: rest, offset_seconds: 0 }
    }

    /// Nanoseconds since 1970. Times that lie too far away are the first or the last that fit.
    #[must_use]
    pub fn to_nanos(self) -> i64 {
        let nanos = i128::from(self.seconds) * i128::from(super::SECOND) + i128::from(self.nanos);
        i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
    }

    /// Reports whether this is Go's zero time.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }

    /// The same point in time, written in UTC.
    #[must_use]
    pub fn in_utc(self) -> Self {
        Self { offset_seconds: 0, ..self }
    }

    /// Reports whether both are the same point in time, wherever they were written.
    #[must_use]
    pub fn is_same_instant(self, other: Self) -> bool {
        self.in_utc() == other.in_utc()
    }

    /// Reads a text as Go does. The error is Go's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Parser { text, rest: text }.time()
    }
}

impl Default for Time {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.seconds + i64::from(self.offset_seconds);
        let (year, month, day) = date_of(local.div_euclid(DAY));
        let clock = local.rem_euclid(DAY);
        write!(f, "{year:04}-{month:02}-{day:02}T")?;
        write!(f, "{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60)?;
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        let minutes = self.offset_seconds.abs() / 60;
        match self.offset_seconds.signum() {
            0 => f.write_str("Z"),
            sign => write!(f, "{}{:02}:{:02}", if sign < 0 { '-' } else { '+' }, minutes / 60, minutes % 60),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn time(mut self) -> Result<Time, String> {
        let year = self.number(4, "2006")?;
        self.literal("-")?;
        let month = self.number(2, "01")?;
        if !(1..=12).contains(&month) {
            return Err(self.range("month"));
        }
        self.literal("-")?;
        let day = self.number(2, "02")?;
        self.literal("T")?;
        let hour = self.hour()?;
        self.literal(":")?;
        let minute = self.below(60, "04", "minute")?;
        self.literal(":")?;
        let second = self.below(60, "05", "second")?;
        let nanos = self.fraction()?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {}: extra text: {}", quoted(self.text), quoted(self.rest)));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(self.range("day"));
        }
        let clock = hour * 3600 + minute * 60 + second;
        let seconds = days_of(year, month, day) * DAY + clock - offset;
        Ok(Time { seconds, nanos, offset_seconds: i32::try_from(offset).unwrap_or(0) })
    }

    fn number(&mut self, digits: usize, part: &str) -> Result<i64, String> {
        let text = self.rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(text) = text else { return Err(self.unlike(self.rest, part)) };
        self.rest = &self.rest[digits..];
        Ok(text.parse().unwrap_or(0))
    }

    fn below(&mut self, end: i64, part: &str, name: &str) -> Result<i64, String> {
        let number = self.number(2, part)?;
        if number < end { Ok(number) } else { Err(self.range(name)) }
    }

    /// Go takes an hour of one digit.
    fn hour(&mut self) -> Result<i64, String> {
        let second = self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let hour = self.number(if second { 2 } else { 1 }, "15")?;
        if hour < 24 { Ok(hour) } else { Err(self.range("hour")) }
    }

    fn literal(&mut self, part: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(part).ok_or_else(|| self.unlike(self.rest, part))?;
        Ok(())
    }

    /// A point or a comma and digits, of which the first nine count.
    fn fraction(&mut self) -> Result<u32, String> {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return Ok(0) };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Ok(0);
        }
        let kept: String = rest[..count].chars().take(9).collect();
        self.rest = &rest[count..];
        Ok(format!("{kept:0<9}").parse().unwrap_or(0))
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let legal = matches!(bytes.first(), Some(b'+' | b'-'))
            && bytes.get(3) == Some(&b':')
            && [1, 2, 4, 5].into_iter().all(digit);
        if !legal {
            return Err(self.unlike(self.rest, "Z07:00"));
        }
        let number = |at: usize| i64::from(bytes[at] - b'0') * 10 + i64::from(bytes[at + 1] - b'0');
        let (hours, minutes) = (number(1), number(4));
        if hours > 24 {
            return Err(self.range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.range("time zone offset minute"));
        }
        let offset = (hours * 60 + minutes) * 60;
        let offset = if bytes[0] == b'-' { -offset } else { offset };
        self.rest = &self.rest[6..];
        Ok(offset)
    }

    fn unlike(&self, found: &'a str, part: &str) -> String {
        let text = quoted(self.text);
        format!(
            "parsing time {text} as {}: cannot parse {} as {}",
            quoted(LAYOUT),
            quoted(found),
            quoted(part)
        )
    }

    fn range(&self, name: &str) -> String {
        format!("parsing time {}: {name} out of range", quoted(self.text))
    }
}

/// `time` has a quoting of its own, which escapes all that is not ASCII byte by byte.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 (Howard Hinnant's algorithm; its years begin in March).
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAYS
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + EPOCH_DAYS;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_were_read() {
        let same = [
            "0001-01-01T00:00:00Z",
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.000000001Z",
            "2026-11-28T12:00:00.12+02:00",
            "1969-12-31T23:59:59.5-09:30",
            "9999-12-31T23:59:59Z",
            "0000-02-29T00:00:00Z",
        ];
        for text in same {
            assert_eq!(Time::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Time::parse("2026-01-01T1:00:00,5+00:00").unwrap().to_string(), "2026-01-01T01:00:00.5Z");
        assert!(Time::parse("0001-01-01T02:00:00+02:00").unwrap().is_zero());
    }

    #[test]
    fn nanoseconds_since_1970_are_times_in_utc() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (1_709_210_096_120_000_000, "2024-02-29T12:34:56.12Z"),
            (1_767_225_599_000_000_001, "2025-12-31T23:59:59.000000001Z"),
        ];
        for (nanos, text) in known {
            assert_eq!(Time::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        let as_layout = r#" as "2006-01-02T15:04:05Z07:00": cannot parse "#;
        let known = [
            ("abc", format!(r#"parsing time "abc"{as_layout}"abc" as "2006""#)),
            ("", format!(r#"parsing time ""{as_layout}"" as "2006""#)),
            ("2024-13-01T00:00:00Z", r#"parsing time "2024-13-01T00:00:00Z": month out of range"#.to_owned()),
            ("2023-02-29T00:00:00Z", r#"parsing time "2023-02-29T00:00:00Z": day out of range"#.to_owned()),
            (
                "2023-02-01T00:00:00",
                format!(r#"parsing time "2023-02-01T00:00:00"{as_layout}"" as "Z07:00""#),
            ),
            ("2023-02-01T00:00:00Zx", r#"parsing time "2023-02-01T00:00:00Zx": extra text: "x""#.to_owned()),
        ];
        for (text, error) in known {
            assert_eq!(Time::parse(text), Err(error));
        }
    }

    #[test]
    fn nanoseconds_go_both_ways() {
        for nanos in [0, 1, -1, 1_764_288_000_123_456_789, i64::MIN, i64::MAX] {
            assert_eq!(Time::from_nanos(nanos).to_nanos(), nanos);
        }
        assert_eq!(Time::from_nanos(-1).to_string(), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(Time::ZERO.to_nanos(), i64::MIN);
    }
}
