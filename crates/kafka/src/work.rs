//! The time that the threads of the server spend on a client, for its quota `request_percentage` (KIP-124).
//!
//! A turn of the connection counts, with reading, deciding and sending, and so does every piece of a request
//! that another thread carries out. Time in which something is waited for does not. A client is charged at
//! its next answer, for everything since the one before.
//!
//! Not counted: lookups by time in large batches (ListOffsets), which have a budget of their own.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use tailrace_env::time::{Duration, Instant};

thread_local! {
    /// Since when this thread has worked for a client without that being counted.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time that was spent on a client and is not charged yet.
#[derive(Debug, Default)]
pub(crate) struct Work(AtomicU64);

/// Begins a turn of this thread for a client.
pub(crate) fn begin_turn() {
    SINCE.set(Some(Instant::now()));
}

impl Work {
    /// Ends the turn of this thread, and counts it.
    pub(crate) fn end_turn(&self) {
        if let Some(since) = SINCE.take() {
            self.add(since.elapsed());
        }
    }

    /// Counts time that a thread has spent.
    pub(crate) fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::Relaxed);
    }

    /// Takes the time that is not charged yet, including that of the turn that is not over.
    pub(crate) fn take(&self) -> Duration {
        let mut time = Duration::from_nanos(self.0.swap(0, Ordering::Relaxed));
        if let Some(since) = SINCE.get() {
            let now = Instant::now();
            time += now.duration_since(since);
            SINCE.set(Some(now));
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration as Real;

    use super::*;

    const NAP: Real = Real::from_millis(5);

    #[test]
    fn a_turn_counts_once_though_it_is_charged_before_its_end() {
        tailrace_runtime::install();
        let work = Work::default();
        let began = Instant::now();
        begin_turn();
        std::thread::sleep(NAP);
        let first = work.take();
        std::thread::sleep(NAP);
        work.end_turn();
        let second = work.take();
        let all = began.elapsed();
        assert!(first >= NAP && second >= NAP, "{first:?} {second:?}");
        assert!(first + second <= all, "{first:?} and {second:?} of {all:?}");
        assert_eq!(work.take(), Duration::ZERO);
    }

    #[test]
    fn time_between_turns_does_not_count() {
        tailrace_runtime::install();
        let work = Work::default();
        begin_turn();
        work.end_turn();
        // Time passes that is no work.
        std::thread::sleep(4 * NAP);
        assert!(work.take() < NAP);
        work.add(NAP);
        assert!(work.take() >= NAP, "another thread's");
    }
}
