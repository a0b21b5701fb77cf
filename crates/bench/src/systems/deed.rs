//! What is to become of what runs have left behind.

/// What is to become of what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing.
    List,
    /// It is removed.
    Remove,
}
