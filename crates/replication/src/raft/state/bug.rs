//! What a replica does wrong, on purpose.

/// What a replica does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliberateBug {
    /// It takes entries of its own that contradict the leader's for the leader's.
    SkipTruncation,
    /// As the leader it takes for committed what a majority has, also of an older term. It sends one entry at a time, so that this
    /// comes to pass.
    CountOlderTerms,
}
