//! What to do with leftovers of runs.

/// What to do with leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Only list them.
    List,
    /// Remove them.
    Remove,
}
