//! The attributes of a batch: codec, timestamp type, flags.

use std::fmt;

use crate::codec::Compression;
use crate::error::BatchError;

/// The clock behind the timestamps of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer's clock. Each record has its own timestamp.
    #[default]
    CreateTime,
    /// The server's clock. Every record has the batch's largest timestamp.
    LogAppendTime,
}

impl TimestampType {
    /// Returns Kafka's name, as in `message.timestamp.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The attributes of a batch. Bits 0-2 are the codec, bit 3 the timestamp type, bit 4 transactional, bit 5
/// control, and bit 6 says that the base timestamp is a delete horizon. The others are unused and ignored, as
/// in Kafka.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// Returns the codec of the records.
    ///
    /// # Errors
    /// [`BatchError::UnknownCompression`] for the ids 5 to 7.
    pub const fn compression(self) -> Result<Compression, BatchError> {
        let id = (self.0 & Self::COMPRESSION) as u8;
        match Compression::from_id(id) {
            Some(compression) => Ok(compression),
            None => Err(BatchError::UnknownCompression { id }),
        }
    }

    /// Returns the clock behind the timestamps.
    pub const fn timestamp_type(self) -> TimestampType {
        if self.has(Self::LOG_APPEND_TIME) { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// True if the batch is part of a transaction.
    pub const fn is_transactional(self) -> bool {
        self.has(Self::TRANSACTIONAL)
    }

    /// True if the batch holds a marker instead of application data.
    pub const fn is_control(self) -> bool {
        self.has(Self::CONTROL)
    }

    /// True if the base timestamp is the time from which compaction may drop the batch's tombstones
    /// (KIP-534).
    pub const fn has_delete_horizon(self) -> bool {
        self.has(Self::DELETE_HORIZON)
    }

    /// Returns the attributes with another codec.
    #[must_use]
    pub const fn with_compression(self, compression: Compression) -> Self {
        Self((self.0 & !Self::COMPRESSION) | compression.id() as i16)
    }

    /// Returns the attributes with another timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with(Self::LOG_APPEND_TIME, matches!(timestamp_type, TimestampType::LogAppendTime))
    }

    /// Returns the attributes, transactional or not.
    #[must_use]
    pub const fn with_transactional(self, transactional: bool) -> Self {
        self.with(Self::TRANSACTIONAL, transactional)
    }

    /// Returns the attributes, control or not.
    #[must_use]
    pub const fn with_control(self, control: bool) -> Self {
        self.with(Self::CONTROL, control)
    }

    /// Returns the attributes, with or without a delete horizon.
    #[must_use]
    pub(crate) const fn with_delete_horizon(self, horizon: bool) -> Self {
        self.with(Self::DELETE_HORIZON, horizon)
    }

    /// Clears the unused bits. Kafka does the same when it rewrites a batch's attributes.
    #[must_use]
    pub(crate) const fn known(self) -> Self {
        Self(self.0 & 0x7f)
    }

    const fn has(self, bit: i16) -> bool {
        self.0 & bit != 0
    }

    const fn with(self, bit: i16, set: bool) -> Self {
        Self(if set { self.0 | bit } else { self.0 & !bit })
    }
}
