//! Errors of decoding and encoding.

use crate::version::VersionRange;

/// Why bytes are not a valid message. Positions count from the first byte handed to the
/// [`Reader`](crate::Reader). Fields are named `Structure.field`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame ends within a value.
    #[error("{field} at byte {position}: expected {needed} more bytes, found {remaining}")]
    Truncated {
        /// The field that was being read.
        field: &'static str,
        /// Position of the value's first byte.
        position: usize,
        /// Bytes the value needs.
        needed: usize,
        /// Bytes left in the frame.
        remaining: usize,
    },
    /// A length or count below -1. -1 means null, and no other negative value has a meaning.
    #[error("{field} at byte {position}: expected a length of -1 or more, found {length}")]
    NegativeLength {
        /// The field that was being read.
        field: &'static str,
        /// Position of the length.
        position: usize,
        /// The length that was found.
        length: i32,
    },
    /// Null in a field that must have a value at this version.
    #[error("{field} at byte {position}: expected a value, found null")]
    Null {
        /// The field that was being read.
        field: &'static str,
        /// Position of the null.
        position: usize,
    },
    /// The count of an array is higher than the number of elements that the remaining bytes can hold.
    #[error(
        "{field} at byte {position}: expected at most {fitting} elements in {remaining} bytes, found a count of {count}"
    )]
    ArrayTooLong {
        /// The field that was being read.
        field: &'static str,
        /// Position of the count.
        position: usize,
        /// The count that was found.
        count: usize,
        /// The most elements that could fit, each at its smallest encoding.
        fitting: usize,
        /// Bytes left after the count.
        remaining: usize,
    },
    /// A string longer than `STRING_BYTES_MAX`.
    #[error("{field} at byte {position}: expected a string of at most 32767 bytes, found {bytes}")]
    StringTooLong {
        /// The field that was being read.
        field: &'static str,
        /// Position of the string's first byte.
        position: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A string that is not UTF-8.
    #[error("{field} at byte {position}: expected UTF-8, found another byte")]
    NotUtf8 {
        /// The field that was being read.
        field: &'static str,
        /// Position of the first byte that is not UTF-8.
        position: usize,
    },
    /// A variable-length integer of more than 32 bits.
    #[error("{field} at byte {position}: expected a varint of at most 32 bits, found a longer one")]
    VarintTooLong {
        /// The field that was being read.
        field: &'static str,
        /// Position of the varint.
        position: usize,
    },
    /// A tagged field whose content does not end where its size says.
    #[error("{field} at byte {position}: expected the tagged field to end at byte {expected_end}")]
    TagSize {
        /// The field that was being read.
        field: &'static str,
        /// Position at which the content ended.
        position: usize,
        /// Position at which it should end according to its size.
        expected_end: usize,
    },
    /// A frame with more than [`UNKNOWN_TAGS_MAX`](crate::UNKNOWN_TAGS_MAX) unknown tagged fields.
    #[error("{field} at byte {position}: expected at most {max} unknown tagged fields in a frame")]
    TooManyUnknownTags {
        /// The field that was being read.
        field: &'static str,
        /// Position of the first tagged field over the limit.
        position: usize,
        /// The limit.
        max: usize,
    },
    /// Decoding would take more memory than a frame of this size justifies. See
    /// [`memory_budget_bytes`](crate::memory_budget_bytes).
    #[error(
        "{field} at byte {position}: expected to need at most {left} more bytes of memory, found {wanted}"
    )]
    MemoryBudget {
        /// The field that was being read.
        field: &'static str,
        /// Position of the field.
        position: usize,
        /// Bytes of memory the field would take.
        wanted: usize,
        /// Bytes of memory left in the budget.
        left: usize,
    },
    /// Bytes after the last field.
    #[error("expected the message to end at byte {position}, found {remaining} more bytes")]
    TrailingBytes {
        /// Position at which the message ended.
        position: usize,
        /// Bytes left after it.
        remaining: usize,
    },
    /// A version that the message does not have.
    #[error("{message}: expected a version from {} to {}, found {version}", versions.min, versions.max)]
    UnsupportedVersion {
        /// Name of the message.
        message: &'static str,
        /// The requested version.
        version: i16,
        /// The versions that the message has.
        versions: VersionRange,
    },
    /// A request with an unknown API key.
    #[error("expected a known API key, found {key}")]
    UnknownApiKey {
        /// The key that was found.
        key: i16,
    },
}

/// Why a value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A version that the message does not have.
    #[error("{message}: expected a version from {} to {}, found {version}", versions.min, versions.max)]
    UnsupportedVersion {
        /// Name of the message.
        message: &'static str,
        /// The requested version.
        version: i16,
        /// The versions that the message has.
        versions: VersionRange,
    },
    /// A field that does not exist at this version, has a value other than its default, and may not be
    /// dropped.
    #[error("{field}: version {version} has no such field, expected its default value")]
    FieldNotInVersion {
        /// The field.
        field: &'static str,
        /// The requested version.
        version: i16,
    },
    /// `None` in a field that must have a value at this version.
    #[error("{field}: expected a value, found null")]
    Null {
        /// The field.
        field: &'static str,
    },
    /// A string, byte sequence or array too long for its length prefix.
    #[error("{field}: expected a length of at most {max}, found {length}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The greatest length that the prefix can express.
        max: usize,
    },
    /// External records in a tagged field, or in a context that must be contiguous.
    #[error("{field}: expected records in memory, found external ones")]
    ExternalRecords {
        /// The field.
        field: &'static str,
    },
    /// A frame whose length prefix would overflow.
    #[error("expected a frame of at most 2147483647 bytes, found {bytes}")]
    FrameTooLong {
        /// Length of the frame in bytes, without its prefix.
        bytes: u64,
    },
}
