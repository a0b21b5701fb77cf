//! What a consumer must know of its stream and of clients. The caller provides it.

/// A message that may be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its sequence.
    pub seq: u64,
    /// Its timestamp in ns.
    pub timestamp_ns: i64,
    /// Length of its subject.
    pub subject_len: u32,
    /// Length of its header block. 0: it has none.
    pub header_len: u32,
    /// Length of its payload.
    pub payload_len: u32,
}

/// The answer to a look into the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A message.
    Message(Candidate),
    /// No message, and none up to this sequence.
    Nothing {
        /// The last sequence that was looked at.
        through: u64,
    },
    /// It must be read first. The caller reads it, and serves the consumer again then.
    Later,
}

/// The stream, as seen through the consumer's filter.
pub trait StreamView {
    /// Returns the first live message that matches, at or above `from`.
    ///
    /// With a `cut`: the first that was, when the stream ended at `cut`, the last of its subject; not above
    /// `cut`. This is the order of `last_per_subject`.
    fn next(&mut self, from: u64, cut: Option<u64>) -> Found;

    /// Returns a message that was delivered before. [`Found::Nothing`] if it is gone.
    fn get(&mut self, seq: u64) -> Found;

    /// Returns how many matching messages were ever appended, deleted ones included: a counter that all
    /// consumers with this filter share. The consumer holds the difference. It never falls.
    fn appended(&mut self) -> u64;

    /// Returns how many live messages match in `first..=last`. With a `cut`: how many of those that
    /// [`StreamView::next`] would find with it. Called rarely: at creation, after a load, a purge, a change
    /// of filters, a reset.
    fn count(&mut self, first: u64, last: u64, cut: Option<u64>) -> u64;

    /// Returns the stream's last sequence.
    fn last_seq(&mut self) -> u64;

    /// Returns whether somebody subscribes to this inbox.
    fn is_interested(&mut self, inbox: &str) -> bool;
}
