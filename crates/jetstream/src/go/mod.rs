//! What Go's standard library does to texts, as far as clients of nats-server see it: durations, times and
//! quoted strings.

mod duration;
mod quote;
mod time;

pub(crate) use duration::{format_duration, parse_duration};
pub(crate) use quote::{quote, quote_char};
pub use time::Time;

/// Nanoseconds, as durations are written in configurations.
pub type Nanos = i64;

/// A millisecond.
pub(crate) const MILLISECOND: Nanos = 1_000_000;
/// A second.
pub(crate) const SECOND: Nanos = 1_000_000_000;
/// A minute.
pub(crate) const MINUTE: Nanos = 60 * SECOND;

/// A signed decimal number as Go's `strconv.Atoi` reads it: a sign is allowed, blanks are not.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let legal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if legal { text.parse().ok() } else { None }
}
