//! Ranges of versions.

use std::fmt;

/// A range of message versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Lowest version.
    pub min: i16,
    /// Highest version.
    pub max: i16,
}

impl VersionRange {
    /// Reports whether `version` is in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Returns the versions in both ranges, or `None` if there are none.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { min: self.min.max(other.min), max: self.max.min(other.max) };
        (both.min <= both.max).then_some(both)
    }

    /// Returns the versions in ascending order.
    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.min..=self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}
