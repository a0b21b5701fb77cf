//! The answer for a partition whose records were not written.

use std::fmt::Display;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::produce_response::{BatchIndexAndErrorMessage, PartitionProduceResponse};
use tailrace_records::BatchError;
use tailrace_replication::AppendError;
use tailrace_types::Offset;

use crate::commands::Refusal;
use crate::context::Context;
use crate::errors::{batch_code, failure_code};
use tailrace_env::workers::Panicked;
use tailrace_node::partitions::AppendFailure;

/// The reason why a partition's records were not written. Made from a bare code, it has no text.
#[derive(Debug)]
pub(super) struct PartitionRefusal {
    code: ErrorCode,
    message: Option<String>,
    /// The log start offset, set if the log refuses a readable batch, as in Kafka.
    log_start: Option<Offset>,
    record_errors: Vec<BatchIndexAndErrorMessage>,
}

impl PartitionRefusal {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::from(code) }
    }

    /// A batch that is broken or that the topic's rules refuse. In the latter case with the offending
    /// records.
    pub(super) fn of_batch(error: &BatchError, log_start: Offset) -> Self {
        let rejections = match error {
            BatchError::InvalidTimestamps(rejections) | BatchError::InvalidRecords(rejections) => {
                rejections.records.as_slice()
            }
            _ => &[],
        };
        let record_errors = rejections
            .iter()
            .map(|rejection| BatchIndexAndErrorMessage {
                batch_index: rejection.index,
                batch_index_error_message: Some(rejection.reason.to_string()),
                ..Default::default()
            })
            .collect();
        let refusal = Self::new(batch_code(error), error.to_string());
        let log_start = refused_by_log(error).then_some(log_start);
        Self { log_start, record_errors, ..refusal }
    }

    /// A legal batch that is out of order or cannot be written.
    pub(super) fn of_append(failure: AppendFailure, log_start: Offset) -> Self {
        let log_start =
            matches!(failure, AppendFailure::Refused(AppendError::Producer(_))).then_some(log_start);
        Self { log_start, ..Self::from(failure) }
    }

    /// Counts the refusal in the metrics and logs it for debugging.
    pub(super) fn counted(self, context: &Context, topic: &dyn Display, partition: i32) -> Self {
        context.server.metrics.produce_error(self.code.name());
        let (error, reason) = (self.code.name(), self.message.as_deref());
        let caller = context.caller();
        tracing::debug!(%topic, partition, %caller, error, reason, "a producer's batch is refused");
        self
    }

    pub(super) fn answer(self, index: i32) -> PartitionProduceResponse {
        PartitionProduceResponse {
            index,
            error_code: self.code.code(),
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: self.log_start.map_or(-1, Offset::get),
            record_errors: self.record_errors,
            error_message: self.message,
            ..Default::default()
        }
    }
}

/// Reports whether Kafka finds this error only with a log. Before that, it checks that there is exactly one
/// batch in the current format, that it is complete, and its size.
fn refused_by_log(error: &BatchError) -> bool {
    match error {
        BatchError::Incomplete { .. }
        | BatchError::OldMagic { .. }
        | BatchError::SecondBatch { .. }
        | BatchError::Length { .. }
        | BatchError::UnknownMagic { .. }
        | BatchError::Checksum { .. }
        | BatchError::TooLarge { .. }
        | BatchError::ExpandsTooLarge { .. }
        | BatchError::Full { .. } => false,
        BatchError::UnknownCompression { .. }
        | BatchError::Decompression { .. }
        | BatchError::BaseOffset { .. }
        | BatchError::Count { .. }
        | BatchError::Control
        | BatchError::Sequence { .. }
        | BatchError::Record { .. }
        | BatchError::TrailingBytes { .. }
        | BatchError::InvalidRecords(_)
        | BatchError::InvalidTimestamps(_) => true,
    }
}

impl From<ErrorCode> for PartitionRefusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None, log_start: None, record_errors: Vec::new() }
    }
}

impl From<Refusal> for PartitionRefusal {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

impl From<AppendFailure> for PartitionRefusal {
    fn from(failure: AppendFailure) -> Self {
        let code = failure_code(&failure);
        match failure {
            AppendFailure::Gone | AppendFailure::NotLeader | AppendFailure::TooFewReplicas => {
                Self::from(code)
            }
            AppendFailure::Refused(error) => Self::new(code, error.to_string()),
        }
    }
}

/// A panic is a bug in the server, not in the batch.
impl From<Panicked> for PartitionRefusal {
    fn from(_: Panicked) -> Self {
        Self::new(ErrorCode::UnknownServerError, "checking the batch failed; see the server's log")
    }
}

#[cfg(test)]
mod tests {
    use tailrace_env::thread::wait_for;
    use tailrace_env::workers::Workers;
    use tailrace_records::Validated;

    use super::*;

    #[test]
    fn a_panic_of_a_worker_is_the_servers_fault_and_not_the_producers() {
        tailrace_runtime::install();
        let workers = Workers::start().unwrap();
        let check = workers.work(|| -> Result<Validated, BatchError> { panic!("on purpose") });
        let answer = PartitionRefusal::from(wait_for(check).unwrap_err()).answer(3);
        assert_eq!((answer.index, answer.error_code), (3, ErrorCode::UnknownServerError.code()));
        assert_eq!((answer.base_offset, answer.log_start_offset), (-1, -1));
        assert!(answer.record_errors.is_empty(), "no record is to blame");
        assert_eq!(wait_for(workers.work(|| 7)), Ok(7), "the other workers continue");
    }
}
