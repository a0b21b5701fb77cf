//! Points of time in RFC 3339, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

/// `2026-11-24T09:08:07.250Z`. A time before 1970 becomes the start of 1970.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, rest) = (since.as_secs() / DAY_SECONDS, since.as_secs() % DAY_SECONDS);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day in the Gregorian calendar, this many days after 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in months {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn days_of_year(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
        assert!(rfc3339(UNIX_EPOCH + Duration::from_millis(1250)).ends_with(":01.250Z"));
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }
}
