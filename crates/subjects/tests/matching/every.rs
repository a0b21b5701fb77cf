//! The matchers that the tests in this folder are about: here the crate's own. The classical ones lie in `subjects-bench`, whose tests
//! run the same files over a longer list.

use tailrace_subjects::{Dialect, Limits, TupleSpace};

use crate::any::{AnyMatcher, any};

/// Every matcher, empty. The subjects that will be looked up are for those that want to know them: this one does not.
pub(crate) fn every(dialect: Dialect, limits: Limits, _: &[&str]) -> Vec<Box<dyn AnyMatcher>> {
    vec![any(TupleSpace::with_limits(dialect, limits))]
}
