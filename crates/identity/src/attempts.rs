//! Limits on attempts to log in: failed logins make the next answers slower, and there are only so many
//! connections at a time whose clients have not logged in yet.
//!
//! An attempt with SCRAM costs the server next to nothing, so these limits alone slow down guessing. They are
//! by address and not by user: locking out a user would be an attack on that user.
//!
//! The two limits work together. A client that does not wait for the delayed answer and connects again must
//! not gain by it, so its connection keeps its place among the pending ones until the delay is over.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::recent::Recent;

/// Longest delay of an answer, unless the base is longer.
pub(crate) const FAILED_LOGIN_DELAY_MAX: Duration = Duration::from_secs(5);

/// The failures of an address are forgotten if it makes none for this long.
pub(crate) const FAILED_LOGIN_MEMORY: Duration = Duration::from_secs(60);

/// Most addresses with failures that are known at a time. They take up to 8 MB. If there are more, the one
/// whose last failure is the oldest is forgotten.
pub(crate) const FAILED_LOGIN_ADDRESSES_MAX: usize = 65_536;

/// Outdated entries that one failure removes. One failure adds at most one, so two are enough to get rid of
/// all of them in time.
const REMOVED_AT_ONCE: usize = 2;

/// Addresses that count as one: an IPv4 address, also in its IPv6 form, or a /64 of IPv6. One host can
/// usually choose among all addresses of a /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    V4([u8; 4]),
    V6([u16; 4]),
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

/// The failures of an address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    /// When the last one was.
    last: Duration,
}

impl Failures {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= FAILED_LOGIN_MEMORY
    }
}

/// Failed logins by address. `now` is the time since a moment that the owner chooses.
///
/// A successful login changes nothing here: otherwise an attacker who has one valid login could reset the
/// delay at will.
#[derive(Debug)]
pub struct FailedLogins {
    base: Duration,
    by_origin: Recent<Origin, Failures>,
    total: u64,
}

impl FailedLogins {
    /// Knows no failure yet. `base` delays the answer to the first failure of an address:
    /// `connection.failed.authentication.delay.ms`. Zero is no delay at all.
    pub fn new(base: Duration) -> Self {
        Self { base, by_origin: Recent::new(FAILED_LOGIN_ADDRESSES_MAX), total: 0 }
    }

    /// Records a failed login, and returns how long to delay its answer and the end of its connection. The
    /// delay doubles with each failure of the address, up to 5 s.
    ///
    /// Count the delay from the moment at which the credential arrived. The time of the check is then hidden
    /// in it, if it is shorter.
    #[must_use]
    pub fn fail(&mut self, address: IpAddr, now: Duration) -> Duration {
        self.remove_outdated(now);
        self.total += 1;
        let origin = Origin::of(address);
        let delay = self.delay_of(origin, now);
        let count = self.count(origin, now).saturating_add(1);
        self.by_origin.put(origin, Failures { count, last: now });
        delay
    }

    /// Returns how long the answer to the next failed login of this address is delayed.
    #[cfg(test)]
    pub(crate) fn delay(&self, address: IpAddr, now: Duration) -> Duration {
        self.delay_of(Origin::of(address), now)
    }

    /// Returns how many logins failed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many addresses are known, including some whose failures are outdated.
    pub fn addresses(&self) -> usize {
        self.by_origin.len()
    }

    fn delay_of(&self, origin: Origin, now: Duration) -> Duration {
        let factor = 1_u32.checked_shl(self.count(origin, now)).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(FAILED_LOGIN_DELAY_MAX.max(self.base))
    }

    fn count(&self, origin: Origin, now: Duration) -> u32 {
        match self.by_origin.get(&origin) {
            Some(failures) if !failures.is_over(now) => failures.count,
            _ => 0,
        }
    }

    fn remove_outdated(&mut self, now: Duration) {
        for _ in 0..REMOVED_AT_ONCE {
            match self.by_origin.oldest() {
                Some((_, failures)) if failures.is_over(now) => self.by_origin.remove_oldest(),
                _ => return,
            }
        }
    }
}

/// Why a connection is closed before its client can log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The address has too many of them.
    #[error("its address has {max} connections that have not logged in yet")]
    Address {
        /// The limit.
        max: usize,
    },
    /// There are too many of them in all.
    #[error("there are {max} connections that have not logged in yet")]
    Total {
        /// The limit.
        max: usize,
    },
}

/// The place of a connection among those that have not logged in yet. Give it to [`PendingLogins::leave`]:
/// dropping it does not free the place.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Admitted(Origin);

/// Connections whose clients have not logged in yet: a bounded number by address and in all.
#[derive(Debug)]
pub struct PendingLogins {
    per_address_max: usize,
    total_max: usize,
    /// Only addresses with at least one connection: so `total_max` bounds their number.
    by_origin: BTreeMap<Origin, usize>,
    total: usize,
    refused: u64,
}

impl PendingLogins {
    /// Has no connections yet. Every network of IPv6 up to /64 counts as one address, so `per_address_max`
    /// must be large enough for all clients of one site to come back at the same time.
    pub fn new(per_address_max: usize, total_max: usize) -> Self {
        Self { per_address_max, total_max, by_origin: BTreeMap::new(), total: 0, refused: 0 }
    }

    /// Admits a connection from this address.
    ///
    /// # Errors
    /// There are too many connections from this address, or in all.
    pub fn admit(&mut self, address: IpAddr) -> Result<Admitted, NotAdmitted> {
        let origin = Origin::of(address);
        let pending = self.by_origin.get(&origin).copied().unwrap_or(0);
        let refusal = if pending >= self.per_address_max {
            Some(NotAdmitted::Address { max: self.per_address_max })
        } else if self.total >= self.total_max {
            Some(NotAdmitted::Total { max: self.total_max })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.refused += 1;
            return Err(refusal);
        }
        self.by_origin.insert(origin, pending + 1);
        self.total += 1;
        Ok(Admitted(origin))
    }

    /// Frees the place of a connection: its client logged in, or it is closed. If its login failed, call this
    /// when the delay of [`FailedLogins::fail`] is over, even if the client has closed it before.
    ///
    /// # Panics
    /// The place belongs to another `PendingLogins`, and this one has none from the address.
    pub fn leave(&mut self, place: Admitted) {
        let pending = self.by_origin.get_mut(&place.0).expect("an admitted connection is counted");
        *pending -= 1;
        if *pending == 0 {
            self.by_origin.remove(&place.0);
        }
        self.total -= 1;
    }

    /// Returns how many connections have not logged in yet.
    pub fn len(&self) -> usize {
        self.total
    }

    /// Reports whether all connections have logged in.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns how many connections were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(100);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_delay_doubles_up_to_its_maximum() {
        let mut failed = FailedLogins::new(BASE);
        let found: Vec<u128> =
            (0..100).map(|_| failed.fail(address("10.0.0.1"), millis(7)).as_millis()).collect();
        assert_eq!(found[..8], [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(found[8..].iter().all(|delay| *delay == 5000), "{found:?}");
        assert_eq!(failed.delay(address("10.0.0.2"), millis(7)), BASE, "of another address");
        assert_eq!((failed.total(), failed.addresses()), (100, 1));
    }

    #[test]
    fn failures_are_forgotten_after_a_minute_without_one() {
        let mut failed = FailedLogins::new(BASE);
        let from = address("10.0.0.1");
        for (at, expected) in [
            (1_000, 100),
            (60_999, 200),
            (120_998, 400),
            (180_998, 100),
            (180_999, 200),
            // The clock went back.
            (5, 400),
            (60_004, 800),
            (200_000, 100),
        ] {
            assert_eq!(failed.delay(from, millis(at)), millis(expected), "at {at}");
            assert_eq!(failed.fail(from, millis(at)), millis(expected), "at {at}");
        }
    }

    #[test]
    fn the_base_is_kept_if_it_is_zero_or_longer_than_the_maximum() {
        for base in [Duration::ZERO, Duration::from_secs(9), Duration::MAX] {
            let mut failed = FailedLogins::new(base);
            for _ in 0..40 {
                assert_eq!(failed.fail(address("10.0.0.1"), Duration::ZERO), base);
            }
        }
    }

    #[test]
    fn addresses_that_one_host_can_choose_among_count_as_one() {
        for (one, other, is_same) in [
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("::1", "0.0.0.1", false),
        ] {
            let mut failed = FailedLogins::new(BASE);
            assert_eq!(failed.fail(address(one), Duration::ZERO), BASE);
            let doubled = failed.delay(address(other), Duration::ZERO) == BASE * 2;
            assert_eq!(doubled, is_same, "{one} and {other}");
        }
    }

    #[test]
    fn the_address_whose_last_failure_is_the_oldest_is_forgotten_when_there_are_too_many() {
        let mut failed = FailedLogins::new(BASE);
        let number = |number: u32| IpAddr::from(number.to_be_bytes());
        let fill = FAILED_LOGIN_ADDRESSES_MAX as u32;
        for from in (0..fill).chain([0, fill]) {
            let _ = failed.fail(number(from), Duration::ZERO);
        }
        assert_eq!(failed.addresses(), FAILED_LOGIN_ADDRESSES_MAX);
        assert_eq!(failed.delay(number(1), Duration::ZERO), BASE);
        assert_eq!(failed.delay(number(0), Duration::ZERO), BASE * 4);
    }

    #[test]
    fn outdated_addresses_leave_the_table() {
        let mut failed = FailedLogins::new(BASE);
        for from in 0..100_u32 {
            let _ = failed.fail(IpAddr::from(from.to_be_bytes()), Duration::ZERO);
        }
        for _ in 0..50 {
            let _ = failed.fail(address("10.0.0.1"), FAILED_LOGIN_MEMORY);
        }
        assert_eq!(failed.addresses(), 1);
    }

    #[test]
    fn connections_are_bounded_by_address_and_in_all() {
        let mut pending = PendingLogins::new(2, 3);
        let (one, two) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = pending.admit(one).unwrap();
        let second = pending.admit(address("::ffff:10.0.0.1")).unwrap();
        assert_eq!(pending.admit(one), Err(NotAdmitted::Address { max: 2 }));
        let third = pending.admit(two).unwrap();
        assert_eq!(pending.admit(two), Err(NotAdmitted::Total { max: 3 }));
        assert_eq!((pending.len(), pending.refused()), (3, 2));
        pending.leave(first);
        let fourth = pending.admit(one).unwrap();
        for place in [second, third, fourth] {
            pending.leave(place);
        }
        assert!(pending.is_empty() && pending.by_origin.is_empty());
        assert_eq!(pending.refused(), 2);
    }
}
