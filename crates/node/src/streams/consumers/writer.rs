//! Who writes the durable consumers of a stream.

/// A leader of a stream, and how many writes there were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    /// What the coordinator has given it.
    pub(super) generation: i64,
    /// The last write.
    pub(super) sequence: i64,
}

impl Writer {
    /// The writer of the next write.
    pub(super) fn next(&mut self) -> Self {
        self.sequence += 1;
        *self
    }
}
