//! The buckets of quotas, bounded, because clients choose their ids and addresses are many.
//!
//! If there is no place, client ids and addresses that have no quota by name share a bucket of their user,
//! and in the end one bucket for all. A bucket that is full again is forgotten.

use std::collections::HashMap;

use tailrace_identity::quota::{RateWindow, SAMPLE_MS, SAMPLES};

/// Maximum number of buckets of one kind. A bucket takes less than 500 bytes, so all of a kind take 32 MiB.
const BUCKETS_MAX: usize = 65_536;

/// Maximum number of them for client ids and addresses that have no quota by name. The others are kept for
/// users and for those who have one.
const ANY_BUCKETS_MAX: usize = BUCKETS_MAX / 4 * 3;

/// Interval at which full buckets are looked for, in milliseconds. Looking at all takes about 1 ms.
const SWEEP_MS: u64 = 60_000;

/// The same while there is no place for a new one.
const SWEEP_WHEN_FULL_MS: u64 = 1000;

/// A window has forgotten everything after this time, in milliseconds.
const WINDOW_MS: u64 = SAMPLES as u64 * SAMPLE_MS;

/// Something that measures, with a name that is the hash of what it is for.
pub(super) struct Place<M> {
    pub(super) meter: M,
    is_any: bool,
    /// From this time on, forgetting it changes nothing.
    pub(super) full_ms: u64,
}

/// Buckets of one kind.
pub(super) struct Buckets<M> {
    places: HashMap<u64, Place<M>>,
    /// Number of those for clients or addresses without a quota by name.
    any: usize,
    swept_ms: u64,
}

impl<M> Default for Buckets<M> {
    fn default() -> Self {
        Self { places: HashMap::new(), any: 0, swept_ms: 0 }
    }
}

impl<M> Buckets<M> {
    /// Returns the first of the places that exists or can be made. The last one is always made.
    pub(super) fn place(
        &mut self,
        names: [u64; 3],
        is_any: bool,
        now_ms: u64,
        make: impl FnOnce() -> M,
    ) -> &mut Place<M> {
        let [own, of_user, of_all] = names;
        self.sweep(SWEEP_MS, now_ms);
        let (name, is_any) = if self.has(own, is_any, now_ms) {
            (own, is_any)
        } else if self.has(of_user, false, now_ms) {
            (of_user, false)
        } else {
            (of_all, false)
        };
        self.places.entry(name).or_insert_with(|| {
            self.any += usize::from(is_any);
            Place { meter: make(), is_any, full_ms: now_ms }
        })
    }

    /// Reports whether a place exists, or may be made.
    fn has(&mut self, name: u64, is_any: bool, now_ms: u64) -> bool {
        if self.places.contains_key(&name) || self.has_room(is_any) {
            return true;
        }
        self.sweep(SWEEP_WHEN_FULL_MS, now_ms);
        self.has_room(is_any)
    }

    fn has_room(&self, is_any: bool) -> bool {
        self.places.len() < BUCKETS_MAX && (!is_any || self.any < ANY_BUCKETS_MAX)
    }

    /// Forgets full buckets, unless that was done less than `interval_ms` ago.
    fn sweep(&mut self, interval_ms: u64, now_ms: u64) {
        if now_ms.saturating_sub(self.swept_ms) < interval_ms {
            return;
        }
        self.swept_ms = now_ms;
        self.places.retain(|_, place| place.full_ms > now_ms);
        self.any = self.places.values().filter(|place| place.is_any).count();
        if self.places.len() < self.places.capacity() / 4 {
            self.places.shrink_to(self.places.len() * 2);
        }
    }
}

impl Buckets<RateWindow> {
    pub(super) fn window(&mut self, names: [u64; 3], is_any: bool, now_ms: u64) -> &mut RateWindow {
        let place = self.place(names, is_any, now_ms, RateWindow::default);
        place.full_ms = now_ms.saturating_add(WINDOW_MS);
        &mut place.meter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;
    const OF_USER: u64 = u64::MAX - 1;

    fn fill(buckets: &mut Buckets<RateWindow>, first: u64, count: usize, is_any: bool) {
        for name in first..first + count as u64 {
            buckets.window([name, OF_USER, ALL], is_any, 0);
        }
    }

    #[test]
    fn those_without_a_quota_by_name_share_a_bucket_when_there_are_too_many() {
        let mut buckets = Buckets::default();
        fill(&mut buckets, 0, ANY_BUCKETS_MAX, true);
        assert_eq!(buckets.places.len(), ANY_BUCKETS_MAX);
        fill(&mut buckets, 1_000_000, 1000, true);
        assert_eq!(buckets.places.len(), ANY_BUCKETS_MAX + 1);
        assert!(buckets.places.contains_key(&OF_USER));
        fill(&mut buckets, 2_000_000, 1, false);
        assert!(buckets.places.contains_key(&2_000_000), "there is room for those who have one");
        fill(&mut buckets, 3_000_000, BUCKETS_MAX, false);
        assert_eq!(buckets.places.len(), BUCKETS_MAX);
        fill(&mut buckets, 4_000_000, 10, true);
        assert_eq!(buckets.places.len(), BUCKETS_MAX, "they share the one of their user");
        buckets.window([5_000_000, 5_000_001, ALL], true, 0);
        assert_eq!(buckets.places.len(), BUCKETS_MAX + 1);
        assert!(buckets.places.contains_key(&ALL));
    }

    #[test]
    fn full_buckets_leave_when_others_need_the_place() {
        let mut buckets = Buckets::default();
        fill(&mut buckets, 0, ANY_BUCKETS_MAX, true);
        buckets.window([7, OF_USER, ALL], true, WINDOW_MS - 1);
        buckets.window([1_000_000, OF_USER, ALL], true, WINDOW_MS);
        assert_eq!((buckets.places.len(), buckets.any), (2, 2));
        assert!(buckets.places.contains_key(&7), "it was used since");
    }

    #[test]
    fn full_buckets_leave_after_a_while() {
        let mut buckets = Buckets::default();
        fill(&mut buckets, 0, 1000, true);
        buckets.window([0, OF_USER, ALL], true, SWEEP_MS);
        assert_eq!(buckets.places.len(), 1);
        assert!(buckets.places.capacity() < 1000);
    }
}
