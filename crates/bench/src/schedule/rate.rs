//! Rates: messages per second, as an exact fraction.

use std::fmt;
use std::str::FromStr;

use crate::error::ScheduleError;

/// Messages per second with three decimals, exact.
///
/// Kept as messages per 1,000 seconds, so that due times are computed in integers and never drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    per_kilosecond: u64,
}

impl Rate {
    /// The largest rate: one message per nanosecond.
    pub(crate) const PER_SECOND_MAX: u64 = 1_000_000_000;

    /// A rate in messages per second.
    ///
    /// # Errors
    /// More than `Rate::PER_SECOND_MAX`.
    pub fn per_second(messages: u64) -> Result<Self, ScheduleError> {
        Self::per_kilosecond(messages.saturating_mul(1000))
    }

    /// A rate in messages per 1,000 seconds.
    ///
    /// # Errors
    /// More than [`Rate::PER_SECOND_MAX`] per second.
    pub(crate) fn per_kilosecond(messages: u64) -> Result<Self, ScheduleError> {
        if messages > Self::PER_SECOND_MAX * 1000 {
            return Err(ScheduleError::RateTooHigh { per_second: messages / 1000 });
        }
        Ok(Self { per_kilosecond: messages })
    }

    /// Messages per 1,000 seconds.
    pub(crate) fn in_kiloseconds(self) -> u64 {
        self.per_kilosecond
    }

    /// Messages per second, rounded as floating point does.
    pub(crate) fn in_seconds(self) -> f64 {
        self.per_kilosecond as f64 / 1000.0
    }

    /// Reports whether the rate is 0.
    pub fn is_zero(self) -> bool {
        self.per_kilosecond == 0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/s", self.in_seconds())
    }
}

impl FromStr for Rate {
    type Err = ScheduleError;

    /// Parses `3000`, `0.5`, `250k`, `1.5M`.
    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let wrong = || ScheduleError::NoRate { text: text.to_owned() };
        let (number, factor) = match text.as_bytes().last() {
            Some(b'k') => (&text[..text.len() - 1], 1000),
            Some(b'M') => (&text[..text.len() - 1], 1_000_000),
            _ => (text, 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        // Nine decimals are more than any factor can use.
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return Err(wrong());
        }
        let whole: u128 = whole.parse().map_err(|_| wrong())?;
        let nano: u128 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
        let scaled = (whole.checked_mul(1_000_000_000).ok_or_else(wrong)? + nano)
            .checked_mul(factor * 1000)
            .ok_or_else(wrong)?;
        if scaled % 1_000_000_000 != 0 {
            return Err(wrong());
        }
        let rate = u64::try_from(scaled / 1_000_000_000).map_err(|_| wrong())?;
        Self::per_kilosecond(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, per_kilosecond) in
            [("3000", 3_000_000), ("0.5", 500), ("250k", 250_000_000), ("1.5M", 1_500_000_000), ("0.001", 1)]
        {
            assert_eq!(text.parse::<Rate>().unwrap().in_kiloseconds(), per_kilosecond, "{text}");
        }
        for wrong in ["", "k", "-1", "1e3", "0.0001", "2000M", ".5", "99999999999999999999999999999999999"] {
            wrong.parse::<Rate>().unwrap_err();
        }
    }
}
