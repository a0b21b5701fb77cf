//! Faults by number: which of them a run leaves out, and what a failed run reports.

use std::collections::BTreeSet;
use std::fmt;

/// The first number of faults that depend on the course of a run.
pub(crate) const AIMED_FROM: usize = 1_000;

/// The faults that a run leaves out. The remaining faults stay the same, as far as they do not depend on the
/// course of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// The numbers of the faults.
    pub listed: BTreeSet<usize>,
    /// True to leave out all other faults, false to leave out these.
    pub only: bool,
}

impl Mask {
    pub(crate) fn leaves_out(&self, number: usize) -> bool {
        self.listed.contains(&number) != self.only
    }
}

/// The report of a failed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The anomaly, in one line.
    pub anomaly: String,
    /// The faults that were injected up to then, with their numbers.
    pub faults: Vec<(usize, String)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (after {} faults)", self.anomaly, self.faults.len())
    }
}
