//! The clock that orders all writes and views of a matcher.
//!
//! It is one number. Even means *open*, `2 * t`: writes may still be stamped `t`. Odd means *closed*,
//! `2 * t + 1`: a reader has looked at time `t`, so the next write starts time `t + 1`. Both moves add one.
//! The clock does not move unless there are both looks and writes: a thousand writes in a row share a time,
//! and a million looks cost one load each.
//!
//! This is the camera of Wei, Ben-David, Blelloch, Fatourou, Ruppert and Sun ("Constant-Time Snapshots with
//! Applications to Concurrent Data Structures", PPoPP 2021). The difference is that the next writer, not the
//! reader, increments it. So with one load the same number also tells a cache whether anything has changed.

use super::sync::{AtomicU64, Ordering};

/// A point in the order of writes. Times start at 1; 61 bits last for 73 years at a thousand million moves a
/// second.
pub(crate) type Time = u64;

/// The clock; see the module's documentation.
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(2))
    }

    /// The newest time that is certain without touching the clock: all writes stamped with it or less came
    /// before this call.
    #[inline]
    pub(crate) fn certain(&self) -> Time {
        let now = self.0.load(Ordering::SeqCst);
        // Closed at t: t. Open at t: later writes may still be stamped t, so t - 1.
        (now >> 1) - 1 + (now & 1)
    }

    /// Closes the current time and returns it: all writes stamped with it or less came before this call, and
    /// all others come after. Costs one load if nothing was written since the last look.
    #[inline]
    pub(crate) fn look(&self) -> Time {
        let now = self.0.load(Ordering::SeqCst);
        if now & 1 == 1 { now >> 1 } else { self.0.fetch_or(1, Ordering::SeqCst) >> 1 }
    }

    /// The time to stamp a write with that readers can already reach.
    pub(crate) fn stamp(&self) -> Time {
        let mut now = self.0.load(Ordering::SeqCst);
        loop {
            if now & 1 == 0 {
                return now >> 1;
            }
            match self.0.compare_exchange(now, now + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return (now + 1) >> 1,
                Err(newer) => now = newer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_parts_the_writes_before_from_those_after() {
        let clock = Clock::new();
        let before = clock.stamp();
        assert_eq!(clock.stamp(), before, "writes without a look between share a time");
        assert!(clock.certain() < before, "an open time is not certain");
        let seen = clock.look();
        assert!(before <= seen);
        assert_eq!((clock.look(), clock.certain()), (seen, seen), "nothing moves while nobody writes");
        assert!(clock.stamp() > seen);
        assert_eq!(clock.certain(), seen);
    }
}
