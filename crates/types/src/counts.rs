//! Counts of bytes and things: lossless conversions, and a counter that cannot go below zero.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "tailrace requires a 64-bit target, where sizes in memory and sizes on disk have the same 64 bits"
);

/// The most bytes that the decompressed records of a batch may take, whatever is configured: the largest
/// legal value of `tailrace.decompressed.bytes.max`. Lengths within records are `i32`.
pub const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;

/// Converts a number of bytes or things to a size in memory.
pub const fn usize_of(number: u64) -> usize {
    number as usize
}

/// Converts a number of things in memory to the type that metrics and the protocol use.
///
/// # Panics
/// Beyond 2^63: memory cannot hold as many.
pub const fn i64_of(number: usize) -> i64 {
    assert!(number <= i64::MAX as usize, "more things than memory has bytes");
    number as i64
}

/// Subtracts `number` from a count.
///
/// # Panics
/// If the count is less than `number`. The count is unchanged then.
pub fn take_off(count: &mut usize, number: usize, what: &str) {
    match count.checked_sub(number) {
        Some(left) => *count = left,
        None => panic!("{number} go of {count} {what}"),
    }
}

/// A counter that its members raise and lower, and that any thread can read.
#[derive(Debug)]
pub struct Tally {
    count: AtomicU64,
    what: &'static str,
}

impl Tally {
    /// Creates a count of zero. `what` names the counted things in the message about a wrong count.
    pub const fn of(what: &'static str) -> Self {
        Self { count: AtomicU64::new(0), what }
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the count as a size in memory.
    pub fn size(&self) -> usize {
        usize_of(self.get())
    }

    /// Adds `number`.
    pub fn add(&self, number: u64) {
        self.count.fetch_add(number, Ordering::AcqRel);
    }

    /// Adds `number` if `has_room` accepts the current count. Reports whether it did.
    pub fn add_if(&self, number: u64, has_room: impl Fn(u64) -> bool) -> bool {
        let more = |those: u64| has_room(those).then_some(those + number);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Subtracts `number`. If the count is less than that, it is unchanged. During a panic no second panic is
    /// raised, because that would end the process.
    ///
    /// # Panics
    /// If the count is less than `number`.
    pub fn take_off(&self, number: u64) {
        let left = |count: u64| count.checked_sub(number);
        let taken = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
        if let Err(count) = taken {
            assert!(std::thread::panicking(), "{number} go of {count} {}", self.what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_goes() {
        let tally = Tally::of("connections");
        tally.add(3);
        tally.take_off(2);
        assert_eq!((tally.get(), tally.size()), (1, 1));
        assert!(tally.add_if(4, |there| there == 1) && !tally.add_if(4, |there| there == 1));
        assert_eq!(tally.get(), 5);
    }

    #[test]
    #[should_panic(expected = "2 go of 1 connections")]
    fn more_cannot_go_than_are_there() {
        let tally = Tally::of("connections");
        tally.add(1);
        tally.take_off(2);
    }

    #[test]
    fn a_count_that_is_wrong_is_left_alone() {
        let mut count = 3;
        take_off(&mut count, 1, "guests");
        let wrong =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take_off(&mut count, 3, "guests")));
        let reason = wrong.expect_err("there are two");
        assert_eq!(reason.downcast_ref::<String>().map(String::as_str), Some("3 go of 2 guests"));
        assert_eq!(count, 2);
    }

    #[test]
    fn a_wrong_count_while_a_panic_is_under_way_does_not_end_the_process() {
        struct Guest<'a>(&'a Tally);
        impl Drop for Guest<'_> {
            fn drop(&mut self) {
                self.0.take_off(1);
            }
        }
        let tally = Tally::of("guests");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guest = Guest(&tally);
            panic!("something else is wrong");
        }));
        assert!(panicked.is_err());
        assert_eq!(tally.get(), 0);
    }
}
