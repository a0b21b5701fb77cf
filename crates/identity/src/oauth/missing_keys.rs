//! When an unknown key is a reason to fetch the key set again.

use super::jwks::KID_CHARS_MAX;

/// How many ids are remembered. They take at most 64 KiB.
const KIDS_MAX: usize = 16;

/// How long an id is remembered, in milliseconds.
const REMEMBERED_MS: i64 = 60_000;

/// Remembers which keys were missing, so that tokens with invented key ids do not make the server fetch the
/// key set all the time: at most 16 times within 60 s, and once for each id. Kafka has the same numbers. But
/// it forgets the oldest id for a new one, so many ids lift its bound.
#[derive(Debug, Default)]
pub struct MissingKeys {
    kids: Vec<Missing>,
}

#[derive(Debug)]
struct Missing {
    kid: String,
    since_ms: i64,
}

impl MissingKeys {
    /// Remembers nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports whether the key set should be fetched again because it does not have the key `kid`, and
    /// remembers that. `now_ms` may be of any clock, in milliseconds. If the clock was set back, ids of the
    /// future are forgotten. An id of more than 1,000 characters is never a reason.
    pub fn is_reason_to_refresh(&mut self, kid: &str, now_ms: i64) -> bool {
        self.kids.retain(|missing| {
            (missing.since_ms..missing.since_ms.saturating_add(REMEMBERED_MS)).contains(&now_ms)
        });
        let is_known = self.kids.iter().any(|missing| missing.kid == kid);
        if is_known || self.kids.len() >= KIDS_MAX || kid.chars().count() > KID_CHARS_MAX {
            return false;
        }
        self.kids.push(Missing { kid: kid.to_owned(), since_ms: now_ms });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_key_is_a_reason_once_a_minute() {
        let mut missing = MissingKeys::new();
        for (kid, now_ms, expected) in [
            ("a", 1_000, true),
            ("a", 1_000, false),
            ("b", 2_000, true),
            ("a", 60_999, false),
            ("a", 61_000, true),
            ("b", 61_000, false),
            ("b", 62_000, true),
            // The clock was set back.
            ("b", 5, true),
            ("a", 5, true),
            ("a", i64::MAX, true),
            ("a", i64::MAX, true),
        ] {
            assert_eq!(missing.is_reason_to_refresh(kid, now_ms), expected, "{kid} at {now_ms}");
        }
    }

    #[test]
    fn many_missing_keys_are_not_many_reasons() {
        let mut missing = MissingKeys::new();
        let mut refreshes = |from_ms: i64| {
            (0..1_000_i64).filter(|n| missing.is_reason_to_refresh(&format!("kid {n}"), from_ms + n)).count()
        };
        assert_eq!(refreshes(0), 16);
        assert_eq!(refreshes(50_000), 0);
        assert_eq!(refreshes(61_000), 16);
        assert_eq!(missing.kids.len(), 16);
        let mut missing = MissingKeys::new();
        assert!(!missing.is_reason_to_refresh(&"k".repeat(1_001), 0));
        assert!(missing.is_reason_to_refresh(&"k".repeat(1_000), 0));
    }
}
