//! Deliberate bugs of a replica.

/// A deliberate bug of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliberateBug {
    /// It accepts its own entries as the leader's although they contradict them.
    SkipTruncation,
    /// As the leader, it counts an entry as committed once a majority has it, even an entry of an older term.
    /// It sends one entry at a time, so that this occurs.
    CountOlderTerms,
}
