//! Where to start, as given to `--from`, and the wanted range of a partition.

use tailrace_cli::text::time::{now_ms, parse_instant};

/// The value of `--from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Beginning,
    End,
    Offset(i64),
    /// The last N of each partition.
    Last(i64),
    /// Milliseconds since 1970.
    Time(i64),
}

/// The wanted offsets of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: i64,
    /// Exclusive; `None` if there is no end.
    pub(super) until: Option<i64>,
}

/// Parses the value of `--from`.
pub(super) fn parse_from(text: &str) -> Result<From, String> {
    let number = |digits: &str| digits.parse::<i64>().map_err(|_| format!("'{digits}' is too large"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text {
        "beginning" | "earliest" => Ok(From::Beginning),
        "end" | "latest" => Ok(From::End),
        _ if is_number(text) => number(text).map(From::Offset),
        _ => match (text.strip_prefix('@'), text.strip_prefix('-').filter(|text| is_number(text))) {
            (Some(time), _) => parse_instant(time, now_ms()).map(From::Time),
            (None, Some(count)) => number(count).map(From::Last),
            (None, None) => Err("expected beginning, end, an offset, -N for the last N, or @TIME".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_begin() {
        assert_eq!(parse_from("beginning"), Ok(From::Beginning));
        assert_eq!(parse_from("end"), Ok(From::End));
        assert_eq!(parse_from("17"), Ok(From::Offset(17)));
        assert_eq!(parse_from("-10"), Ok(From::Last(10)));
        assert_eq!(parse_from("@1700000000000"), Ok(From::Time(1_700_000_000_000)));
        assert!(matches!(parse_from("@-1h"), Ok(From::Time(_))));
        for wrong in ["", "-", "@", "start", "1.5", "-1h", "99999999999999999999"] {
            parse_from(wrong).unwrap_err();
        }
    }
}
