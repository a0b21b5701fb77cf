//! What can be wrong with received bytes, and with values that shall be sent.

use crate::version::VersionRange;

/// Why bytes are no legal message. Positions count from the first byte handed to the [`Reader`](crate::Reader);
/// fields are named `Structure.field`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame ends within a value.
    #[error("{field} at byte {position}: expected {needed} more bytes, found {remaining}")]
    Truncated {
        /// Field that was being read.
        field: &'static str,
        /// Where the value begins.
        position: usize,
        /// Bytes the value needs.
        needed: usize,
        /// Bytes that are left.
        remaining: usize,
    },
    /// A length or count below -1, the only negative one with a meaning.
    #[error("{field} at byte {position}: expected a length of -1 or more, found {length}")]
    NegativeLength {
        /// Field that was being read.
        field: &'static str,
        /// Where the length lies.
        position: usize,
        /// The length that was found.
        length: i32,
    },
    /// Null, where this field at this version must have a value.
    #[error("{field} at byte {position}: expected a value, found null")]
    Null {
        /// Field that was being read.
        field: &'static str,
        /// Where the null lies.
        position: usize,
    },
    /// An array claims more elements than the bytes that are left can hold.
    #[error(
        "{field} at byte {position}: expected at most {fitting} elements in {remaining} bytes, found a count of {count}"
    )]
    ArrayTooLong {
        /// Field that was being read.
        field: &'static str,
        /// Where the count lies.
        position: usize,
        /// The count that was found.
        count: usize,
        /// The most elements of smallest size that fit.
        fitting: usize,
        /// Bytes that are left after the count.
        remaining: usize,
    },
    /// A string beyond `STRING_BYTES_MAX`.
    #[error("{field} at byte {position}: expected a string of at most 32767 bytes, found {bytes}")]
    StringTooLong {
        /// Field that was being read.
        field: &'static str,
        /// Where the string begins.
        position: usize,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A string that is not UTF-8.
    #[error("{field} at byte {position}: expected UTF-8, found another byte")]
    NotUtf8 {
        /// Field that was being read.
        field: &'static str,
        /// The first byte that is no UTF-8.
        position: usize,
    },
    /// A variable-length integer of more than 32 bits.
    #[error("{field} at byte {position}: expected a varint of at most 32 bits, found a longer one")]
    VarintTooLong {
        /// Field that was being read.
        field: &'static str,
        /// Where the varint begins.
        position: usize,
    },
    /// A tagged field whose content does not end where its size says.
    #[error("{field} at byte {position}: expected the tagged field to end at byte {expected_end}")]
    TagSize {
        /// Field that was being read.
        field: &'static str,
        /// Where its content ended.
        position: usize,
        /// Where its size says that it ends.
        expected_end: usize,
    },
    /// More tagged fields of a frame have no meaning than [`UNKNOWN_TAGS_MAX`](crate::UNKNOWN_TAGS_MAX).
    #[error("{field} at byte {position}: expected at most {max} unknown tagged fields in a frame")]
    TooManyUnknownTags {
        /// Field that was being read.
        field: &'static str,
        /// Where the first one too many lies.
        position: usize,
        /// The limit.
        max: usize,
    },
    /// Decoding would take more memory than a frame of this size justifies, see
    /// [`memory_budget_bytes`](crate::memory_budget_bytes).
    #[error(
        "{field} at byte {position}: expected to need at most {left} more bytes of memory, found {wanted}"
    )]
    MemoryBudget {
        /// Field that was being read.
        field: &'static str,
        /// Where it lies.
        position: usize,
        /// Bytes of memory it would take.
        wanted: usize,
        /// Bytes of memory that are left in the budget.
        left: usize,
    },
    /// Bytes after the last field.
    #[error("expected the message to end at byte {position}, found {remaining} more bytes")]
    TrailingBytes {
        /// Where the message ended.
        position: usize,
        /// Bytes after it.
        remaining: usize,
    },
    /// A version that the message does not have.
    #[error("{message}: expected a version from {} to {}, found {version}", versions.min, versions.max)]
    UnsupportedVersion {
        /// Name of the message.
        message: &'static str,
        /// The version that was asked for.
        version: i16,
        /// Those it has.
        versions: VersionRange,
    },
    /// A request with an API key that nobody knows.
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
        /// The version that was asked for.
        version: i16,
        /// Those it has.
        versions: VersionRange,
    },
    /// A field that this version lacks, that may not be dropped, and that does not have its default.
    #[error("{field}: version {version} has no such field, expected its default value")]
    FieldNotInVersion {
        /// The field.
        field: &'static str,
        /// The version that was asked for.
        version: i16,
    },
    /// `None` where this version needs a value.
    #[error("{field}: expected a value, found null")]
    Null {
        /// The field.
        field: &'static str,
    },
    /// A string, byte sequence or array that its length prefix cannot express.
    #[error("{field}: expected a length of at most {max}, found {length}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The greatest length that can be expressed.
        max: usize,
    },
    /// External records within a tagged field or in a context that must be contiguous.
    #[error("{field}: expected records in memory, found external ones")]
    ExternalRecords {
        /// The field.
        field: &'static str,
    },
    /// A frame whose length prefix would overflow.
    #[error("expected a frame of at most 2147483647 bytes, found {bytes}")]
    FrameTooLong {
        /// Length of the frame without its prefix.
        bytes: u64,
    },
}
