//! Times and durations in Go's notation.

use tailrace_env::time::{Duration, WallTime};

const DAY_SECONDS: u64 = 86_400;

/// Formats a time by RFC 3339, with as many decimals as needed: `2026-11-21T04:11:29.342538861Z`.
pub(crate) fn rfc3339(time: WallTime) -> String {
    rfc3339_after_epoch(time.after_epoch())
}

/// The same for the time since the beginning of 1970.
pub(crate) fn rfc3339_after_epoch(since: Duration) -> String {
    let (days, rest) = (since.as_secs() / DAY_SECONDS, since.as_secs() % DAY_SECONDS);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let decimals = match since.subsec_nanos() {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{decimals}Z")
}

/// Returns year, month and day of a day number, counted from 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 1 March of the year 0, so that the leap day is the last day of a year. The calendar
    // repeats every 400 years.
    let (era, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let month = (months_since_march + 2) % 12 + 1;
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day_of_year - (153 * months_since_march + 2) / 5 + 1)
}

/// Formats an uptime as nats-server does: `3m10s`, `1y2d0h0m7s`.
pub(crate) fn uptime(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / DAY_SECONDS);
    let years = days / 365;
    let below = |seconds: u64| {
        let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
        (hour, minute, seconds % 60)
    };
    let (hour, minute, second) = below(seconds);
    match (years, days, hours, minutes) {
        (0, 0, 0, 0) => format!("{second}s"),
        (0, 0, 0, _) => format!("{minute}m{second}s"),
        (0, 0, ..) => format!("{hour}h{minute}m{second}s"),
        (0, ..) => format!("{days}d{hour}h{minute}m{second}s"),
        _ => format!("{years}y{}d{hour}h{minute}m{second}s", days % 365),
    }
}

/// Formats a duration as Go does: `472µs`, `1.5ms`, `2.000001s`.
pub(crate) fn duration(microseconds: u64) -> String {
    let scaled = |unit: u64, digits: usize, name: &str| {
        let (whole, part) = (microseconds / unit, microseconds % unit);
        let text = format!("{whole}.{part:0digits$}");
        format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match microseconds {
        0..1_000 => format!("{microseconds}µs"),
        1_000..1_000_000 => scaled(1_000, 3, "ms"),
        _ => scaled(1_000_000, 6, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants() {
        let at = |seconds, nanos| rfc3339(WallTime::default() + Duration::new(seconds, nanos));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_825_600, 0), "2000-02-29T12:00:00Z");
        assert_eq!(at(1_795_234_289, 342_538_861), "2026-11-21T04:11:29.342538861Z");
        assert_eq!(at(1_795_234_289, 500_000_000), "2026-11-21T04:11:29.5Z");
    }

    #[test]
    fn durations() {
        let up = |seconds| uptime(Duration::from_secs(seconds));
        assert_eq!(up(0), "0s");
        assert_eq!(up(190), "3m10s");
        assert_eq!(up(3600), "1h0m0s");
        assert_eq!(up(90_061), "1d1h1m1s");
        assert_eq!(up(366 * 86_400 + 1), "1y1d0h0m1s");
        assert_eq!(duration(472), "472µs");
        assert_eq!(duration(1_500), "1.5ms");
        assert_eq!(duration(2_000_001), "2.000001s");
        assert_eq!(duration(3_000_000), "3s");
    }
}
