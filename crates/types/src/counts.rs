//! Numbers of bytes and of things: conversions that lose nothing, and a count that cannot go below zero.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("tailrace takes it that a size in memory and a size on disk are numbers of the same 64 bits");

/// Bytes that the records of a batch may take when decompressed, whatever is set: the largest legal value of
/// `tailrace.decompressed.bytes.max`. Lengths within records are `i32`.
pub const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;

/// A number of bytes or things as a size in memory.
pub const fn usize_of(number: u64) -> usize {
    number as usize
}

/// A number of things in memory as what metrics and the protocol have.
///
/// # Panics
/// Beyond 2^63: nothing in memory has as many.
pub const fn i64_of(number: usize) -> i64 {
    assert!(number <= i64::MAX as usize, "more things than memory has bytes");
    number as i64
}

/// Takes `number` off a count.
///
/// # Panics
/// If there are not as many of `what`. The count is as it was.
pub fn take_off(count: &mut usize, number: usize, what: &str) {
    match count.checked_sub(number) {
        Some(left) => *count = left,
        None => panic!("{number} go of {count} {what}"),
    }
}

/// How many of something there are at the moment, counted by those who come and go, and read by anybody.
#[derive(Debug)]
pub struct Tally {
    count: AtomicU64,
    what: &'static str,
}

impl Tally {
    /// None yet. `what` is counted, for the message of a count that is wrong.
    pub const fn of(what: &'static str) -> Self {
        Self { count: AtomicU64::new(0), what }
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The same, for what is in memory.
    pub fn size(&self) -> usize {
        usize_of(self.get())
    }

    /// So many have come.
    pub fn add(&self, number: u64) {
        self.count.fetch_add(number, Ordering::AcqRel);
    }

    /// So many come, if there is room for them beside those that are there. False if there is not.
    pub fn add_if(&self, number: u64, has_room: impl Fn(u64) -> bool) -> bool {
        let more = |those: u64| has_room(those).then_some(those + number);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// So many have gone. Left alone if they were not there, also while a panic is under way: a second one would end the process.
    ///
    /// # Panics
    /// If there were not as many.
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
