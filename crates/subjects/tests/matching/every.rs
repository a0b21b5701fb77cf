//! The matchers under test in this folder: here only the crate's own. The classical ones are in
//! `subjects-bench`, whose tests run the same files over a longer list.

use tailrace_subjects::{Dialect, Limits, TupleSpace};

use crate::any::{AnyMatcher, any};

/// Every matcher, empty. The subjects to be looked up are for matchers that need to know them; this one does
/// not.
pub(crate) fn every(dialect: Dialect, limits: Limits, _: &[&str]) -> Vec<Box<dyn AnyMatcher>> {
    vec![any(TupleSpace::with_limits(dialect, limits))]
}
