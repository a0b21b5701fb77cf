//! Errors of patterns, subjects and subscriptions. Positions count bytes from 0.

use crate::Dialect;

/// Why a pattern or a subject was rejected. A rejected text leaves no state behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The dialect does not allow the empty text.
    #[error("empty {0} subject")]
    Empty(Dialect),
    /// Two separators in a row, or one at either end, in a dialect without empty words.
    #[error("empty word at byte {position}")]
    EmptyWord {
        /// Position of the empty word.
        position: usize,
    },
    /// A wildcard inside a longer word, in a dialect that forbids it.
    #[error("wildcard `{}` inside a word at byte {position}: a wildcard is a whole word", *wildcard as char)]
    WildcardInWord {
        /// The wildcard's byte.
        wildcard: u8,
        /// Its position.
        position: usize,
    },
    /// A tail wildcard before the last word, in a dialect that forbids it.
    #[error("`{}` at byte {position} is not the last word", *wildcard as char)]
    TailNotLast {
        /// The wildcard's byte.
        wildcard: u8,
        /// Its position.
        position: usize,
    },
    /// A published MQTT topic contains a wildcard.
    #[error("wildcard `{}` in a published topic at byte {position}", *wildcard as char)]
    WildcardInSubject {
        /// The wildcard's byte.
        wildcard: u8,
        /// Its position.
        position: usize,
    },
    /// A byte that the dialect does not allow: a control character, or a space in NATS.
    #[error("byte 0x{byte:02x} at {position} is not allowed")]
    Forbidden {
        /// The byte.
        byte: u8,
        /// Its position.
        position: usize,
    },
    /// The text is not UTF-8.
    #[error("not UTF-8 from byte {position} on")]
    NotUtf8 {
        /// Where the first invalid sequence starts.
        position: usize,
    },
    /// Longer than [`Limits::bytes_max`](crate::Limits::bytes_max).
    #[error("{bytes} bytes: the limit is {bytes_max}")]
    TooLong {
        /// Length of the text.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// More words than [`Limits::words_max`](crate::Limits::words_max).
    #[error("more than {words_max} words, from byte {position} on")]
    TooManyWords {
        /// Where the first excess word starts.
        position: usize,
        /// The limit.
        words_max: usize,
    },
    /// `$share` without a group or a filter.
    #[error("`$share` needs a group and a filter, as in `$share/GROUP/FILTER`: see byte {position}")]
    BadShare {
        /// Where the missing or malformed part starts.
        position: usize,
    },
}

impl TextError {
    /// The error as seen from a longer text, in which the rejected text starts this many bytes later.
    pub(crate) fn moved_by(self, bytes: usize) -> Self {
        match self {
            Self::EmptyWord { position } => Self::EmptyWord { position: position + bytes },
            Self::WildcardInWord { wildcard, position } => {
                Self::WildcardInWord { wildcard, position: position + bytes }
            }
            Self::TailNotLast { wildcard, position } => {
                Self::TailNotLast { wildcard, position: position + bytes }
            }
            Self::WildcardInSubject { wildcard, position } => {
                Self::WildcardInSubject { wildcard, position: position + bytes }
            }
            Self::Forbidden { byte, position } => Self::Forbidden { byte, position: position + bytes },
            Self::NotUtf8 { position } => Self::NotUtf8 { position: position + bytes },
            Self::TooManyWords { position, words_max } => {
                Self::TooManyWords { position: position + bytes, words_max }
            }
            Self::BadShare { position } => Self::BadShare { position: position + bytes },
            Self::Empty(_) | Self::TooLong { .. } => self,
        }
    }
}

/// Why a subscription was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The pattern's text was rejected.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The pattern's dialect is not the matcher's.
    #[error("the pattern is {pattern}, the matcher {matcher}")]
    WrongDialect {
        /// The pattern's dialect.
        pattern: Dialect,
        /// The matcher's dialect.
        matcher: Dialect,
    },
    /// There are [`Limits::subscriptions_max`](crate::Limits::subscriptions_max) subscriptions already. A
    /// subscription counts from the start of its subscribe until its unsubscribe has returned.
    #[error("{subscriptions_max} subscriptions, which is the limit")]
    TooManySubscriptions {
        /// The limit.
        subscriptions_max: usize,
    },
    /// The pattern's shape has no table, and the shapes without one already have
    /// [`Limits::overflow_words_max`](crate::Limits::overflow_words_max) words. Patterns of existing shapes
    /// are still accepted.
    #[error("no room for another shape of pattern: those without a table have {words_max} words at most")]
    TooManyShapes {
        /// The limit.
        words_max: usize,
    },
    /// The algorithm does not support such a pattern.
    #[error("{algorithm} does not support {feature}")]
    Unsupported {
        /// Name of the algorithm.
        algorithm: &'static str,
        /// The missing feature.
        feature: &'static str,
    },
}
