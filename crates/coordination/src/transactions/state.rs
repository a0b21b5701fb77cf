//! The states of a transaction, with Kafka's numbers and names.

use serde::{Deserialize, Serialize};

/// Where a transactional id's transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TransactionState {
    /// The producer was given an id or an epoch, and has begun nothing.
    Empty,
    /// Partitions were added.
    Ongoing,
    /// It will be committed, whatever happens; markers are being written.
    PrepareCommit,
    /// It will be aborted, whatever happens; markers are being written.
    PrepareAbort,
    /// It was committed; all markers are there.
    CompleteCommit,
    /// It was aborted; all markers are there.
    CompleteAbort,
    /// The transactional id is being forgotten. Known by name to those who filter; never stored.
    Dead,
    /// A producer is being fenced off. Known by name to those who filter; never stored.
    PrepareEpochFence,
}

impl TransactionState {
    /// All states, by number.
    pub(crate) const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// The number in the log.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// The state with this number in the log; `None` for those that are never stored, and for unknown ones.
    pub(crate) fn stored(number: i8) -> Option<Self> {
        let stored = Self::ALL.into_iter().find(|state| state.number() == number)?;
        (!matches!(stored, Self::Dead | Self::PrepareEpochFence)).then_some(stored)
    }

    /// The name that clients see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// The state of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// True while markers are being written: the outcome is decided, nothing else may happen.
    pub(crate) const fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }

    /// True when nothing is open: the id may be forgotten after a while.
    pub const fn is_idle(self) -> bool {
        matches!(self, Self::Empty | Self::CompleteCommit | Self::CompleteAbort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_kafkas() {
        for (number, state) in TransactionState::ALL.into_iter().enumerate() {
            assert_eq!(state.number(), number as i8);
            assert_eq!(TransactionState::named(state.name()), Some(state));
        }
        assert_eq!(TransactionState::stored(5), Some(TransactionState::CompleteAbort));
        assert_eq!(TransactionState::stored(6), None);
        assert_eq!(TransactionState::stored(-1), None);
        assert_eq!(TransactionState::named("ongoing"), None);
    }
}
