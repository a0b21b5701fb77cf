//! Tracks which bytes of a segment were found intact, and which must be checked.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use parking_lot::Mutex;

/// The most spans kept per segment. Beyond that, the shortest is dropped and checked again.
const SPANS_MAX: usize = 64;

/// Whether [`LogReader::read`](crate::LogReader::read) checks the batches that it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyReads {
    /// Never. The receivers check.
    #[default]
    Never,
    /// Batches that were not checked since the log was opened, or since
    /// [`LogReader::forget_unread`](crate::LogReader::forget_unread) found their segment unread.
    First,
    /// All batches.
    Always,
}

/// The setting for all logs of a store. It may change at any time.
#[derive(Debug, Default)]
pub(crate) struct VerifySetting(AtomicU8);

impl VerifySetting {
    pub(crate) fn set(&self, verify: VerifyReads) {
        self.0.store(verify as u8, Relaxed);
    }

    pub(crate) fn get(&self) -> VerifyReads {
        match self.0.load(Relaxed) {
            0 => VerifyReads::Never,
            1 => VerifyReads::First,
            _ => VerifyReads::Always,
        }
    }
}

/// The bytes of a segment's `.log` that were found intact.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Start and end of each span, ascending, neither overlapping nor touching.
    spans: Mutex<Vec<(u32, u32)>>,
    was_read: AtomicBool,
}

impl Verified {
    /// Returns the end of the span that holds `position`, or `position` itself.
    pub(crate) fn end_from(&self, position: u32) -> u32 {
        self.was_read.store(true, Relaxed);
        let spans = self.spans.lock();
        let next = spans.partition_point(|span| span.1 <= position);
        spans.get(next).filter(|span| span.0 <= position).map_or(position, |span| span.1)
    }

    pub(crate) fn add(&self, from: u32, upto: u32) {
        let mut spans = self.spans.lock();
        let first = spans.partition_point(|span| span.1 < from);
        let count = spans[first..].iter().take_while(|span| span.0 <= upto).count();
        let merged = spans[first..first + count]
            .iter()
            .fold((from, upto), |merged, span| (merged.0.min(span.0), merged.1.max(span.1)));
        spans.splice(first..first + count, [merged]);
        if spans.len() > SPANS_MAX
            && let Some(shortest) = (0..spans.len()).min_by_key(|at| spans[*at].1 - spans[*at].0)
        {
            spans.remove(shortest);
        }
    }

    /// Forgets everything, unless there was a read since the last call.
    pub(crate) fn forget_unless_read(&self) {
        if !self.was_read.swap(false, Relaxed) {
            self.forget();
        }
    }

    /// Forgets everything, because another file may have replaced the checked one.
    pub(crate) fn forget(&self) {
        *self.spans.lock() = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_merged_where_they_touch_and_the_shortest_goes_when_there_are_too_many() {
        let verified = Verified::default();
        verified.add(100, 200);
        verified.add(300, 400);
        let ends = |positions: [u32; 6]| positions.map(|at| verified.end_from(at));
        assert_eq!(ends([0, 100, 199, 200, 300, 400]), [0, 200, 200, 200, 400, 400]);
        verified.add(200, 300);
        assert_eq!(ends([0, 100, 199, 200, 300, 400]), [0, 400, 400, 400, 400, 400]);
        verified.add(50, 500);
        assert_eq!(*verified.spans.lock(), [(50, 500)]);
        (1..=SPANS_MAX as u32).for_each(|number| verified.add(number * 1000, number * 1000 + number));
        assert_eq!(verified.spans.lock().len(), SPANS_MAX);
        assert_eq!(verified.end_from(1000), 1000, "the shortest");
        assert_eq!(verified.end_from(2000), 2002);
    }

    #[test]
    fn what_is_read_stays_known_and_what_is_not_is_forgotten() {
        let verified = Verified::default();
        verified.add(0, 10);
        assert_eq!(verified.end_from(0), 10);
        verified.forget_unless_read();
        assert_eq!(*verified.spans.lock(), [(0, 10)]);
        verified.forget_unless_read();
        assert!(verified.spans.lock().is_empty());
    }
}
