//! When an unknown key is a reason to fetch the key set again.

use super::jwks::KID_CHARS_MAX;

/// How long an id is remembered, in milliseconds.
const REMEMBERED_MS: i64 = 60_000;

/// How many fetches in a row are possible.
const BURST: i64 = 4;

/// After a burst: one fetch in this time, in milliseconds.
const INTERVAL_MS: i64 = 5_000;

/// How many ids are remembered. More reasons cannot come together in [`REMEMBERED_MS`]. They take at most
/// 64 KiB.
const KIDS_MAX: usize = (REMEMBERED_MS / INTERVAL_MS + BURST) as usize;

/// Remembers which keys were missing, so that tokens with invented key ids do not make the server fetch the
/// key set all the time: at most 16 times within 60 s, as in Kafka, and once for each id.
///
/// Kafka remembers 16 ids. It forgets the oldest one for a new one, so many ids lift its bound. If it did
/// not, 16 invented ids would keep a new key out for a minute. Here the rate is bounded instead: an id that
/// comes while there is no fetch left is not remembered, so the new key is found within 5 s, whatever
/// strangers do.
#[derive(Debug, Default)]
pub struct MissingKeys {
    kids: Vec<Missing>,
    /// The time at which all fetches are left again.
    whole_at_ms: i64,
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
    /// remembers that. `now_ms` may be of any clock, in milliseconds. If the clock was set back, ids and
    /// fetches of the future are forgotten. An id of more than 1,000 characters is never a reason.
    pub fn is_reason_to_refresh(&mut self, kid: &str, now_ms: i64) -> bool {
        self.kids.retain(|missing| {
            (missing.since_ms..missing.since_ms.saturating_add(REMEMBERED_MS)).contains(&now_ms)
        });
        if self.kids.iter().any(|missing| missing.kid == kid) || kid.chars().count() > KID_CHARS_MAX {
            return false;
        }
        self.spend(now_ms) && self.kids.len() < KIDS_MAX && {
            self.kids.push(Missing { kid: kid.to_owned(), since_ms: now_ms });
            true
        }
    }

    /// Takes one fetch, if one is left.
    fn spend(&mut self, now_ms: i64) -> bool {
        if self.whole_at_ms.saturating_sub(now_ms) > BURST * INTERVAL_MS {
            // The clock was set back.
            self.whole_at_ms = now_ms;
        }
        let whole_at_ms = self.whole_at_ms.max(now_ms).saturating_add(INTERVAL_MS);
        if whole_at_ms.saturating_sub(now_ms) > BURST * INTERVAL_MS {
            return false;
        }
        self.whole_at_ms = whole_at_ms;
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
        let mut refreshes = |from_ms: i64, to_ms: i64| {
            (from_ms..to_ms).filter(|now| missing.is_reason_to_refresh(&format!("kid {now}"), *now)).count()
        };
        assert_eq!(refreshes(0, 1_000), 4);
        assert_eq!(refreshes(1_000, 60_000), 11);
        assert_eq!(refreshes(60_000, 120_000), 12);
        assert_eq!(refreshes(1_000_000, 1_060_000), 15, "a burst, and one each 5 s");
        assert!(missing.kids.len() <= KIDS_MAX);
        let mut missing = MissingKeys::new();
        assert!(!missing.is_reason_to_refresh(&"k".repeat(1_001), 0));
        assert!(missing.is_reason_to_refresh(&"k".repeat(1_000), 0));
    }

    /// A stranger who invents ids cannot keep a new key out for long.
    #[test]
    fn a_new_key_is_a_reason_within_seconds_among_any_number_of_invented_ones() {
        let mut missing = MissingKeys::new();
        let mut found_ms = None;
        for now_ms in 0..20_000_i64 {
            missing.is_reason_to_refresh(&format!("invented {now_ms}"), now_ms);
            // Its client tries each 10 ms from second 10 on, after the stranger has had its turn.
            if now_ms >= 10_000 && now_ms % 10 == 3 && missing.is_reason_to_refresh("new", now_ms) {
                found_ms = found_ms.or(Some(now_ms));
            }
        }
        // Any of the stranger's ids makes the server fetch the new key, too. Its own is one of them or not.
        let fetches = missing.kids.iter().filter(|kid| (10_000..15_100).contains(&kid.since_ms)).count();
        assert!(fetches >= 1, "{found_ms:?}");
    }
}
