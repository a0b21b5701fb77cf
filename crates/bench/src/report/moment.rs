//! Points of time in RFC 3339, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use tailrace_cli::text::time::format_instant;

/// `2026-11-24T09:08:07.250Z`. A time before 1970 becomes the start of 1970.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format_instant(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_with_milliseconds() {
        let after = |millis| rfc3339(UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(after(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(after(951_825_601_250), "2000-02-29T12:00:01.250Z");
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }
}
