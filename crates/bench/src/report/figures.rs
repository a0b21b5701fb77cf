//! What a number of messages can tell about a percentile, and how numbers are printed.

use serde_json::Value;

use super::axis::grouped;
use crate::recorder::confidence::messages_needed;

/// The highest share that this many messages can tell; 0 if there is none.
pub(super) fn last_known(count: u64) -> f64 {
    // The inverse of `messages_needed`, to the digits that a picture shows.
    if count < messages_needed(0.5) {
        return 0.0;
    }
    let (mut known, mut unknown) = (0.5, 1.0);
    while unknown - known > 1e-9 {
        let middle = f64::midpoint(known, unknown);
        if count >= messages_needed(middle) { known = middle } else { unknown = middle }
    }
    known
}

/// Milliseconds with three decimals, so that microseconds are visible.
pub(crate) fn milliseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

/// A time in a suitable unit, with three digits, for sentences.
pub(super) fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// A share in percent, without trailing zeros.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number with its own number of decimals, and groups of digits.
pub(super) fn number(value: f64) -> String {
    if value >= 1000.0 {
        grouped(value.round() as u64)
    } else {
        ((value * 100.0).round() / 100.0).to_string()
    }
}

/// A value of a result as text; empty if it is null.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A list of a result in one line.
pub(super) fn listed(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_messages_tell_little() {
        let known = last_known(368);
        assert!((0.99..0.9901).contains(&known), "{known}");
        assert_eq!(last_known(3), 0.0);
        assert!(last_known(5000) < 0.9999 && last_known(40_000) > 0.9999);
    }

    #[test]
    fn times_are_short() {
        let found: Vec<String> =
            [7, 8_500, 89_400, 3_100_000, 41_260_000, 410_000_000, 2_004_000_000].map(time).into();
        assert_eq!(found, ["7 ns", "8.50 µs", "89.4 µs", "3.10 ms", "41.3 ms", "410 ms", "2.00 s"]);
        assert_eq!([0.99, 0.0001, 0.5].map(percent), ["99 %", "0.01 %", "50 %"]);
        assert_eq!(milliseconds(1_234_567), "1.234");
    }
}
