//! The states of a transaction, with Kafka's numbers and names.

use serde::{Deserialize, Serialize};

/// The state of a transactional id's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TransactionState {
    /// The producer was given an id or an epoch, and has started no transaction.
    Empty,
    /// Partitions were added.
    Ongoing,
    /// It will be committed. Markers are being written.
    PrepareCommit,
    /// It will be aborted. Markers are being written.
    PrepareAbort,
    /// It was committed. All markers are written.
    CompleteCommit,
    /// It was aborted. All markers are written.
    CompleteAbort,
    /// The transactional id is being removed. Clients may filter by this name; it is never stored.
    Dead,
    /// A producer is being fenced. Clients may filter by this name; it is never stored.
    PrepareEpochFence,
}

impl TransactionState {
    /// All states, ordered by number.
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

    /// Returns the number in the log.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// Returns the state with this number in the log. `None` for states that are never stored, and for
    /// unknown numbers.
    pub(crate) fn stored(number: i8) -> Option<Self> {
        let stored = Self::ALL.into_iter().find(|state| state.number() == number)?;
        (!matches!(stored, Self::Dead | Self::PrepareEpochFence)).then_some(stored)
    }

    /// Returns the name that clients see.
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

    /// Returns the state of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Reports whether markers are being written. The outcome is decided, and no other request is accepted.
    pub(crate) const fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }

    /// Reports whether no transaction is open. The id expires after a while.
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
