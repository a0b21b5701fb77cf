//! The names of batches, which are their values.

use std::fmt;

/// The number of keys of each writer.
const KEYS: u32 = 7;

/// The name of a batch: who offered it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchName {
    /// The node that it was offered to, or the client that offered it. Clients are numbered after the nodes.
    pub(super) node: usize,
    /// The number of the node's or client's start.
    pub(super) start: u32,
    /// The writer, among those of this node.
    pub(super) writer: u32,
    /// How many batches the writer offered before.
    pub(super) number: u32,
}

impl BatchName {
    /// Returns the key for topics where keys matter. Each writer has a few.
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.node, self.number % KEYS)
    }

    /// Parses the value in the log.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.split('.');
        let name = Self {
            node: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
            writer: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }
}

impl fmt::Display for BatchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.node, self.start, self.writer, self.number)
    }
}
