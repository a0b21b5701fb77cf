//! Where facts become protocol error codes. No wildcard arms: a new error demands a decision.

use tailrace_kafka_wire::ErrorCode;
use tailrace_log::LogError;
use tailrace_records::BatchError;
use tailrace_replication::{AppendError, SequenceError};

/// What Kafka 4.3 answers to a producer of such a batch. Where Kafka has no answer (an exception that reaches the client
/// as UNKNOWN_SERVER_ERROR), the code that names the defect.
pub(crate) fn batch_code(error: &BatchError) -> ErrorCode {
    match error {
        BatchError::Length { .. }
        | BatchError::UnknownMagic { .. }
        | BatchError::Checksum { .. }
        | BatchError::UnknownCompression { .. }
        | BatchError::Decompression { .. } => ErrorCode::CorruptMessage,
        BatchError::Incomplete { .. }
        | BatchError::OldMagic { .. }
        | BatchError::SecondBatch { .. }
        | BatchError::BaseOffset { .. }
        | BatchError::Count { .. }
        | BatchError::Control
        | BatchError::Sequence { .. }
        | BatchError::Record { .. }
        | BatchError::TrailingBytes { .. }
        | BatchError::InvalidRecords(_) => ErrorCode::InvalidRecord,
        BatchError::TooLarge { .. } | BatchError::ExpandsTooLarge { .. } | BatchError::Full { .. } => {
            ErrorCode::MessageTooLarge
        }
        BatchError::InvalidTimestamps(_) => ErrorCode::InvalidTimestamp,
    }
}

pub(crate) fn append_code(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Sequence(SequenceError::StaleEpoch { .. }) => ErrorCode::InvalidProducerEpoch,
        AppendError::Sequence(SequenceError::OutOfOrder { .. }) => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::Halted { .. } | AppendError::Full => ErrorCode::KafkaStorageError,
        AppendError::Log(error) => log_code(error),
    }
}

pub(crate) fn log_code(error: &LogError) -> ErrorCode {
    match error {
        LogError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        LogError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        LogError::NoSpace { .. }
        | LogError::Io { .. }
        | LogError::Poisoned { .. }
        | LogError::Damaged { .. }
        | LogError::NewerFormat { .. }
        | LogError::IdentityMismatch { .. } => ErrorCode::KafkaStorageError,
        LogError::NotContinuous { .. } | LogError::BatchBytes { .. } => ErrorCode::UnknownServerError,
    }
}
