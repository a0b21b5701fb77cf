//! How many events of strangers the audit log takes.
//!
//! A client may cause as many refusals and failed logins as it likes. Each key (kind of event, address, user)
//! has a share, so that one client's flood leaves out its own events and not those of others, and all keys
//! together have a rate, so that many clients cannot fill the disk. What is left out is counted, and the
//! counts are written.

use std::collections::HashMap;
use std::net::IpAddr;

use tailrace_env::time::Duration;
use tailrace_identity::{Idle, RateAccount};

/// Time after which a key's share is whole again, and after which its count is written.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Events of a key in a window.
const PER_KEY: u32 = 20;

/// Events per second, of all keys.
const PER_SECOND: f64 = 100.0;

/// Burst of events of all keys, in seconds of the rate.
const BURST: Duration = Duration::from_secs(10);

/// Maximum number of keys. They take at most 512 KiB. Further ones share what is left of the rate.
const KEYS_MAX: usize = 1_024;

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) event: &'static str,
    pub(super) address: Option<IpAddr>,
    pub(super) principal: String,
}

/// Events that were left out. `key` is `None` for those of keys beyond the bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) key: Option<Key>,
    pub(super) count: u64,
}

struct Share {
    since: Duration,
    written: u32,
    left_out: u64,
}

/// The shares of all keys.
pub(super) struct Bounds {
    shares: HashMap<Key, Share>,
    all: RateAccount,
    others_left_out: u64,
    swept: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let (shares, all) = (HashMap::new(), RateAccount::new(Idle::PaysForNext));
        Self { shares, all, others_left_out: 0, swept: Duration::ZERO }
    }
}

impl Bounds {
    /// Reports whether an event is written. Otherwise counts it.
    pub(super) fn admits(&mut self, key: Key, now: Duration) -> bool {
        let is_known = self.shares.contains_key(&key);
        if !is_known && self.shares.len() >= KEYS_MAX {
            let is_admitted = self.pays(now);
            self.others_left_out += u64::from(!is_admitted);
            return is_admitted;
        }
        let pays = self.shares.get(&key).is_none_or(|share| share.written < PER_KEY) && self.pays(now);
        let share = self.shares.entry(key).or_insert(Share { since: now, written: 0, left_out: 0 });
        match pays {
            true => share.written += 1,
            false => share.left_out += 1,
        }
        pays
    }

    fn pays(&mut self, now: Duration) -> bool {
        self.all.spend_within(1, PER_SECOND, BURST, now).is_some()
    }

    /// Forgets the keys whose window is over, and returns what was left out of them. Does nothing until a
    /// window is over.
    pub(super) fn sweep(&mut self, now: Duration) -> Vec<LeftOut> {
        if now.saturating_sub(self.swept) < WINDOW {
            return Vec::new();
        }
        self.swept = now;
        let over = self.shares.extract_if(|_, share| now.saturating_sub(share.since) >= WINDOW);
        let mut found: Vec<_> =
            over.map(|(key, share)| LeftOut { key: Some(key), count: share.left_out }).collect();
        found.push(LeftOut { key: None, count: std::mem::take(&mut self.others_left_out) });
        found.retain(|left_out| left_out.count > 0);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        let address = Some(IpAddr::from(number.to_be_bytes()));
        Key { event: "login", address, principal: "User:ANONYMOUS".to_owned() }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_flood_of_one_client_leaves_out_its_own_events_and_says_how_many() {
        let mut bounds = Bounds::default();
        let admitted = (0..1_000_000).filter(|_| bounds.admits(key(1), SECOND)).count();
        assert_eq!(admitted, 20);
        assert!(bounds.admits(key(2), SECOND), "others have their own share");
        assert!(bounds.sweep(SECOND * 2).is_empty());
        let expected = LeftOut { key: Some(key(1)), count: 1_000_000 - 20 };
        assert_eq!(bounds.sweep(SECOND * 11), [expected]);
        assert!(bounds.sweep(SECOND * 30).is_empty(), "each is told once");
        assert!(bounds.admits(key(1), SECOND * 30));
    }

    #[test]
    fn many_clients_together_have_a_bounded_rate_and_take_bounded_memory() {
        let mut bounds = Bounds::default();
        let (mut admitted, mut told) = (0, 0);
        for second in 0..100 {
            let now = SECOND * second;
            admitted += (0..5_000).filter(|n| bounds.admits(key(second * 5_000 + n), now)).count();
            told += bounds.sweep(now).iter().map(|left_out| left_out.count).sum::<u64>();
            assert!(bounds.shares.len() <= KEYS_MAX);
        }
        assert!((10_000..=11_001).contains(&admitted), "{admitted}");
        told += bounds.sweep(SECOND * 1_000).iter().map(|left_out| left_out.count).sum::<u64>();
        assert_eq!(u64::try_from(admitted).unwrap() + told, 500_000, "nothing is lost without a count");
    }
}
