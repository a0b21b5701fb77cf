//! All matchers: the five classical ones, and the one that they are compared with.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use tailrace_subjects::{Dialect, Limits, TupleSpace};
use tailrace_subjects_bench::classic::{CsTrie, InvertedBitmap, Naive, OptimizedBitmap, Trie};

use crate::any::{AnyMatcher, any};

/// Every matcher, empty. `space` holds the subjects to be looked up, for the algorithm that needs to know
/// them.
pub(crate) fn every(dialect: Dialect, limits: Limits, space: &[&str]) -> Vec<Box<dyn AnyMatcher>> {
    let known = InvertedBitmap::with_limits(dialect, limits, space).unwrap();
    let unknown = InvertedBitmap::with_limits(dialect, limits, [] as [&str; 0]).unwrap();
    vec![
        any(Naive::with_limits(dialect, limits)),
        any(known),
        any(unknown),
        any(OptimizedBitmap::with_limits(dialect, limits)),
        any(Trie::with_limits(dialect, limits)),
        any(CsTrie::with_limits(dialect, limits)),
        any(TupleSpace::with_limits(dialect, limits)),
    ]
}
