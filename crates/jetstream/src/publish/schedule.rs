//! When a schedule is due: `@at TIME`, `@every DURATION`, or six fields of cron.

use crate::go::{SECOND, Time, parse_duration};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// How far cron looks ahead. A date that does not come by then is none.
const YEARS: i64 = 5;

/// A pattern that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleError;

/// When messages of a schedule are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Once.
    At(Time),
    /// Again and again, after so many nanoseconds.
    Every(i64),
    /// When a clock shows it.
    Cron(Cron),
}

/// Bits of the values that a time may have in each field. The highest bit stands for `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    second: u64,
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
}

impl Schedule {
    /// Reads a pattern. `has_zone` says whether a time zone goes with it, which only cron may have.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(pattern: &str, has_zone: bool) -> Result<Self, ScheduleError> {
        if let Some(time) = pattern.strip_prefix("@at ") {
            let time = Time::parse(time).map_err(|_| ScheduleError)?;
            return if has_zone { Err(ScheduleError) } else { Ok(Self::At(time)) };
        }
        if let Some(duration) = pattern.strip_prefix("@every ") {
            let duration = parse_duration(duration).filter(|duration| *duration >= SECOND && !has_zone);
            return duration.map(Self::Every).ok_or(ScheduleError);
        }
        let pattern = match pattern {
            "@yearly" | "@annually" => "0 0 0 1 1 *",
            "@monthly" => "0 0 0 1 * *",
            "@weekly" => "0 0 0 * * 0",
            "@daily" | "@midnight" => "0 0 0 * * *",
            "@hourly" => "0 0 * * * *",
            other => other,
        };
        Cron::parse(pattern).map(Self::Cron)
    }

    /// When it is due next, in nanoseconds since 1970, after the time at which it was due or published. What
    /// was missed meanwhile is due once. Cron counts in UTC: for another zone pass both times with its
    /// offset, and take it off again.
    #[must_use]
    pub fn next(&self, after_nanos: i64, now_nanos: i64) -> Option<i64> {
        let rounded = |nanos: i64| nanos.saturating_add(SECOND / 2).div_euclid(SECOND).saturating_mul(SECOND);
        match self {
            Self::At(time) => Some(time.to_nanos()),
            Self::Every(duration) => {
                let next = rounded(after_nanos).saturating_add(*duration);
                Some(if next < now_nanos { rounded(now_nanos).saturating_add(*duration) } else { next })
            }
            Self::Cron(cron) => {
                let next = cron.next(after_nanos.div_euclid(SECOND))?.saturating_mul(SECOND);
                if next < now_nanos {
                    return Some(cron.next(rounded(now_nanos) / SECOND)?.saturating_mul(SECOND));
                }
                Some(next)
            }
        }
    }
}

const STAR: u64 = 1 << 63;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Field {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

impl Cron {
    fn parse(pattern: &str) -> Result<Self, ScheduleError> {
        let plain = |least, most| Field { least, most, names: &[] };
        let fields: Vec<&str> = pattern.split_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(ScheduleError);
        };
        Ok(Self {
            second: plain(0, 59).bits(second)?,
            minute: plain(0, 59).bits(minute)?,
            hour: plain(0, 23).bits(hour)?,
            day: plain(1, 31).bits(day)?,
            month: Field { names: &MONTHS, ..plain(1, 12) }.bits(month)?,
            weekday: Field { names: &WEEKDAYS, ..plain(0, 6) }.bits(weekday)?,
        })
    }

    /// The next second that matches, after this one.
    fn next(&self, after: i64) -> Option<i64> {
        let first = after + 1;
        let last_day = (first + (YEARS + 1) * 366 * DAY).div_euclid(DAY);
        let mut day = first.div_euclid(DAY);
        let mut of_day = first.rem_euclid(DAY);
        let last_year = year_of(day) + YEARS;
        while day <= last_day {
            if year_of(day) > last_year {
                return None;
            }
            if let Some(found) = self.is_day(day).then(|| self.time_from(of_day)).flatten() {
                return Some(day * DAY + found);
            }
            day += 1;
            of_day = 0;
        }
        None
    }

    fn is_day(&self, day: i64) -> bool {
        let date = Time::from_nanos((day * DAY).saturating_mul(SECOND)).to_string();
        let number =
            |range: std::ops::Range<usize>| date.get(range).and_then(|text| text.parse::<u64>().ok());
        let (Some(month), Some(of_month)) = (number(5..7), number(8..10)) else { return false };
        let weekday = u64::try_from((day + 4).rem_euclid(7)).unwrap_or(0);
        let (by_day, by_weekday) = (has(self.day, of_month), has(self.weekday, weekday));
        let either_is_any = (self.day | self.weekday) & STAR != 0;
        let matches = if either_is_any { by_day && by_weekday } else { by_day || by_weekday };
        has(self.month, month) && matches
    }

    /// The first second of a day that matches, from this one on.
    fn time_from(&self, start: i64) -> Option<i64> {
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        let mut at = start;
        while at < DAY {
            if !has(self.hour, number(at / HOUR)) {
                at = (at / HOUR + 1) * HOUR;
            } else if !has(self.minute, number(at / MINUTE % 60)) {
                at = (at / MINUTE + 1) * MINUTE;
            } else if !has(self.second, number(at % 60)) {
                at += 1;
            } else {
                return Some(at);
            }
        }
        None
    }
}

fn year_of(day: i64) -> i64 {
    Time::from_nanos((day * DAY).saturating_mul(SECOND)).to_string()[..4].parse().unwrap_or(0)
}

fn has(bits: u64, value: u64) -> bool {
    bits >> value & 1 == 1
}

impl Field {
    /// Ranges, separated by commas. Nothing between them is passed over.
    fn bits(&self, text: &str) -> Result<u64, ScheduleError> {
        let ranges = text.split(',').filter(|range| !range.is_empty());
        ranges.map(|range| self.range(range)).try_fold(0, |bits, range| Ok(bits | range?))
    }

    /// `*`, `N`, `N-M`, each with `/STEP`.
    fn range(&self, text: &str) -> Result<u64, ScheduleError> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first, Some(last)),
            None => (range, None),
        };
        let is_any = matches!(first, "*" | "?");
        let (start, mut end) = match last {
            _ if is_any => (self.least, self.most),
            Some(last) => (self.value(first)?, self.value(last)?),
            None => (self.value(first)?, self.value(first)?),
        };
        if is_any && last.is_some_and(|last| last.contains('-')) {
            return Ok(0);
        }
        if step.is_some() && last.is_none() {
            end = self.most;
        }
        let step = step.unwrap_or(1);
        if start < self.least || end > self.most || start > end || step == 0 {
            return Err(ScheduleError);
        }
        let steps = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        let bits = steps.fold(0, |bits, value| bits | 1 << value);
        Ok(if is_any && step == 1 { bits | STAR } else { bits })
    }

    fn value(&self, text: &str) -> Result<u64, ScheduleError> {
        let name = text.to_ascii_lowercase();
        match self.names.iter().position(|known| *known == name) {
            Some(at) => Ok(self.least + at as u64),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, ScheduleError> {
    crate::go::parse_int(text).and_then(|value| u64::try_from(value).ok()).ok_or(ScheduleError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(pattern: &str, after: &str) -> Option<String> {
        let after = Time::parse(after).unwrap().to_nanos();
        let schedule = Schedule::parse(pattern, false).unwrap();
        schedule.next(after, after).map(|nanos| Time::from_nanos(nanos).to_string())
    }

    #[test]
    fn schedules_are_due_when_they_say() {
        let known = [
            ("@at 2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
            ("@every 90s", "2026-11-28T10:21:46Z"),
            ("* * * * * *", "2026-11-28T10:20:16Z"),
            ("0 */15 * * * *", "2026-11-28T10:30:00Z"),
            ("@hourly", "2026-11-28T11:00:00Z"),
            ("@daily", "2026-11-29T00:00:00Z"),
            ("@weekly", "2026-11-29T00:00:00Z"),
            ("@monthly", "2026-12-01T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("0 0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 12 1 * mon", "2026-11-30T12:00:00Z"),
            ("5-7,30 20 10 28 NOV ?", "2026-11-28T10:20:30Z"),
        ];
        for (pattern, wanted) in known {
            assert_eq!(next(pattern, "2026-11-28T10:20:15.6Z").as_deref(), Some(wanted), "{pattern}");
        }
        assert_eq!(next("0 0 0 30 2 *", "2026-11-28T10:20:15Z"), None);
    }

    #[test]
    fn what_was_missed_is_due_once() {
        let schedule = Schedule::parse("@every 10s", false).unwrap();
        assert_eq!(schedule.next(0, 5 * SECOND), Some(10 * SECOND));
        assert_eq!(schedule.next(0, 95 * SECOND), Some(105 * SECOND));
    }

    #[test]
    fn other_patterns_are_refused() {
        let others = [
            "",
            "x",
            "@at x",
            "@every 1",
            "@every 500ms",
            "@every -1s",
            "* * * * *",
            "60 * * * * *",
            "* * * 0 * *",
            "* * * * 13 *",
            "* * * * * 7",
            "1-0 * * * * *",
            "*/0 * * * * *",
            "a * * * * *",
            "1-2-3 * * * * *",
        ];
        for pattern in others {
            assert_eq!(Schedule::parse(pattern, false), Err(ScheduleError), "{pattern}");
        }
        assert_eq!(Schedule::parse("@every 1s", true), Err(ScheduleError));
        assert!(Schedule::parse("@daily", true).is_ok());
    }
}
