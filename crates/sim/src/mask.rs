//! Faults by their numbers: which of them are left out of a run, and what a failed run tells.

use std::collections::BTreeSet;
use std::fmt;

/// Numbers of faults that depend on what happens begin here.
pub(crate) const AIMED_FROM: usize = 1_000;

/// Which faults of a run are left out. What is left is the same in every run, as far as it does not depend on what happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Numbers of faults.
    pub listed: BTreeSet<usize>,
    /// True if all others are left out, false if these are.
    pub only: bool,
}

impl Mask {
    pub(crate) fn leaves_out(&self, number: usize) -> bool {
        self.listed.contains(&number) != self.only
    }
}

/// What a failed run has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What should not have happened, in one line.
    pub anomaly: String,
    /// The faults that were injected until then, with their numbers.
    pub faults: Vec<(usize, String)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (after {} faults)", self.anomaly, self.faults.len())
    }
}
