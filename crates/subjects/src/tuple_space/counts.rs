//! The number of subscriptions: exact, bounded, and without a single word that every writer changes.

use std::cell::Cell;

use super::sync::{AtomicUsize, Ordering};

/// Stripes of the counters, which spread the threads.
const STRIPES: usize = 16;
/// Places that a stripe takes from the total at once.
const CREDIT: usize = 64;
/// No stripe takes or keeps credit when this few places are left. Otherwise a place in transit between two
/// counters could be missed, and a subscription rejected needlessly.
const RESERVE: usize = 4 * STRIPES * CREDIT;

/// Counters of one stripe, on a cache line of their own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    /// Writes that have started.
    begun: AtomicUsize,
    /// Subscriptions that were added.
    added: AtomicUsize,
    /// Subscriptions that were removed.
    removed: AtomicUsize,
    /// Writes that have ended without a change.
    failed: AtomicUsize,
    /// Places that are taken from the total but not used.
    credit: AtomicUsize,
}

pub(crate) struct Counts {
    stripes: [Stripe; STRIPES],
    /// Places in use or held as credit.
    taken: AtomicUsize,
    max: usize,
}

/// How a write has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Added,
    Removed,
    Failed,
}

/// Counts the end of a write on drop.
struct Ended<'a> {
    stripe: &'a Stripe,
    outcome: Outcome,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let ended = match self.outcome {
            Outcome::Added => &self.stripe.added,
            Outcome::Removed => &self.stripe.removed,
            Outcome::Failed => &self.stripe.failed,
        };
        ended.fetch_add(1, Ordering::SeqCst);
    }
}

thread_local! {
    static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
}

fn own_stripe() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    STRIPE.get().unwrap_or_else(|| {
        let own = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES;
        STRIPE.set(Some(own));
        own
    })
}

impl Counts {
    pub(crate) fn new(max: usize) -> Self {
        Self { stripes: std::array::from_fn(|_| Stripe::default()), taken: AtomicUsize::new(0), max }
    }

    /// Runs a write. Its change becomes visible between the two counts. A write that panics counts as failed:
    /// a value's clone may panic.
    pub(crate) fn write<R>(&self, write: impl FnOnce() -> (R, Outcome)) -> R {
        let stripe = &self.stripes[own_stripe()];
        stripe.begun.fetch_add(1, Ordering::SeqCst);
        let mut ended = Ended { stripe, outcome: Outcome::Failed };
        let (result, outcome) = write();
        ended.outcome = outcome;
        result
    }

    /// The number of subscriptions at a moment within this call at which no write was in progress. `None` if
    /// that cannot be determined.
    ///
    /// All counters only grow. If the number of writes that had ended when this started reading equals the
    /// number that had started when it finished, then no write was in progress between the two.
    pub(crate) fn at_rest(&self) -> Option<usize> {
        let sum = |of: fn(&Stripe) -> &AtomicUsize| {
            self.stripes
                .iter()
                .fold(0_usize, |sum, stripe| sum.wrapping_add(of(stripe).load(Ordering::SeqCst)))
        };
        let (added, removed, failed) = (sum(|s| &s.added), sum(|s| &s.removed), sum(|s| &s.failed));
        let begun = sum(|s| &s.begun);
        (added.wrapping_add(removed).wrapping_add(failed) == begun).then(|| added.wrapping_sub(removed))
    }

    /// The number of subscriptions, give or take the writes in progress.
    pub(crate) fn about(&self) -> usize {
        let sum = self.stripes.iter().fold(0_usize, |sum, stripe| {
            let (added, removed) = (&stripe.added, &stripe.removed);
            sum.wrapping_add(added.load(Ordering::Relaxed)).wrapping_sub(removed.load(Ordering::Relaxed))
        });
        if sum > isize::MAX as usize { 0 } else { sum }
    }

    /// Takes a place for a subscription. Returns false if all are taken.
    pub(crate) fn reserve(&self) -> bool {
        let own = own_stripe();
        if take_one(&self.stripes[own].credit) {
            return true;
        }
        if self.take(CREDIT, RESERVE) {
            self.stripes[own].credit.fetch_add(CREDIT - 1, Ordering::Relaxed);
            return true;
        }
        // Near the limit: one by one, then from the credit of other stripes.
        self.take(1, 0) || self.stripes.iter().any(|stripe| take_one(&stripe.credit)) || self.take(1, 0)
    }

    /// Takes places if at least `left` remain afterwards.
    fn take(&self, places: usize, left: usize) -> bool {
        let max = self.max.saturating_sub(left);
        let fits = |taken: usize| taken.checked_add(places).filter(|sum| *sum <= max);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Returns a place.
    pub(crate) fn release(&self) {
        if self.taken.load(Ordering::Relaxed) > self.max.saturating_sub(RESERVE) {
            self.taken.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let credit = &self.stripes[own_stripe()].credit;
        if credit.fetch_add(1, Ordering::Relaxed) + 1 > 4 * CREDIT {
            let much = |held: usize| held.checked_sub(2 * CREDIT);
            if credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, much).is_ok() {
                self.taken.fetch_sub(2 * CREDIT, Ordering::Relaxed);
            }
        }
    }
}

fn take_one(credit: &AtomicUsize) -> bool {
    credit.load(Ordering::Relaxed) > 0
        && credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| held.checked_sub(1)).is_ok()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact_wherever_the_credit_is() {
        let each = if cfg!(miri) { 1_300 } else { 25_000 };
        let counts = Counts::new(4 * each);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..each).for_each(|_| assert!(counts.reserve())));
            }
        });
        assert!(!counts.reserve());
        counts.release();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(counts.reserve(), "a place that another thread gave back"));
        });
        assert!(!counts.reserve());
    }

    #[test]
    fn a_write_under_way_shows() {
        let counts = Counts::new(10);
        counts.write(|| {
            assert_eq!(counts.at_rest(), None);
            ((), Outcome::Added)
        });
        assert_eq!((counts.at_rest(), counts.about()), (Some(1), 1));
        counts.write(|| ((), Outcome::Failed));
        counts.write(|| ((), Outcome::Removed));
        assert_eq!((counts.at_rest(), counts.about()), (Some(0), 0));
    }
}
