//! Limits of what a matcher accepts.

/// Limits of texts and tables. The defaults suit a public server. Every limit has its own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest subject or pattern, in bytes. Default 4,096, at most [`Limits::BYTES_MAX`].
    pub bytes_max: usize,
    /// Most words of a subject or pattern. Default 256, at most [`Limits::WORDS_MAX`]. No algorithm recurses
    /// by word.
    pub words_max: usize,
    /// Most live subscriptions of a matcher. Default 100 million, at 50 to 100 bytes each.
    pub subscriptions_max: usize,
    /// Most words in the shapes of pattern that have no table, each shape counted once. Default 8,192. In
    /// NATS and MQTT a lookup examines at most this many words for them, however many patterns there are.
    /// Only the tuple space uses it.
    pub overflow_words_max: usize,
    /// Accept every byte, including control characters and invalid UTF-8. Default false. For protocols whose
    /// servers do not check, such as NATS, where a blank or a line end cannot arrive within a subject anyway.
    /// Empty words are still rejected.
    pub any_bytes: bool,
}

impl Limits {
    /// The largest possible limit of bytes: lengths are stored in 16 bits.
    pub const BYTES_MAX: usize = 65_535;
    /// The largest possible limit of words.
    pub const WORDS_MAX: usize = 10_000;

    /// Returns the widest possible limits.
    #[must_use]
    pub fn widest() -> Self {
        let (bytes_max, words_max) = (Self::BYTES_MAX, Self::WORDS_MAX);
        Self { bytes_max, words_max, overflow_words_max: usize::MAX, ..Self::default() }
    }

    /// Clamps these limits to what is possible.
    #[must_use]
    pub(crate) fn clamped(self) -> Self {
        Self {
            bytes_max: self.bytes_max.min(Self::BYTES_MAX),
            words_max: self.words_max.min(Self::WORDS_MAX),
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let (subscriptions_max, overflow_words_max) = (100_000_000, 8_192);
        Self { bytes_max: 4_096, words_max: 256, subscriptions_max, overflow_words_max, any_bytes: false }
    }
}
