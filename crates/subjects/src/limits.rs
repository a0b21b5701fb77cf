//! Bounds on what a matcher accepts.

/// Bounds of texts and tables. The defaults suit a public server; every bound has its own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest subject or pattern, in bytes. Default 4,096, at most [`Limits::BYTES_MAX`].
    pub bytes_max: usize,
    /// Most words of a subject or pattern. Default 256, at most [`Limits::WORDS_MAX`]. No algorithm recurses by word.
    pub words_max: usize,
    /// Most live subscriptions of a matcher. Default 100 million, at 50 to 100 bytes each.
    pub subscriptions_max: usize,
    /// Most words of the shapes of pattern that no table holds, each shape counted once. Default 8,192. In NATS and MQTT a lookup looks at
    /// no more words for them than this, however many patterns there are. Of the tuple space only.
    pub overflow_words_max: usize,
    /// Accept every byte: control characters, and what is not UTF-8. Default false. For protocols whose servers do not look, such
    /// as NATS, where a blank or a line end cannot arrive within a subject anyway. Empty words stay refused.
    pub any_bytes: bool,
}

impl Limits {
    /// No limit of bytes may be above this: lengths are stored in 16 bits.
    pub const BYTES_MAX: usize = 65_535;
    /// No limit of words may be above this.
    pub const WORDS_MAX: usize = 10_000;

    /// The widest limits that are possible.
    #[must_use]
    pub fn widest() -> Self {
        let (bytes_max, words_max) = (Self::BYTES_MAX, Self::WORDS_MAX);
        Self { bytes_max, words_max, overflow_words_max: usize::MAX, ..Self::default() }
    }

    /// These limits, cut to what is possible.
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
