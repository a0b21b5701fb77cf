//! What the data path asks of a transaction's coordinator.

use tailrace_broker::coordinator::TransactionalProducer;
use tailrace_kafka_wire::ErrorCode;
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::kafka::Context;
use crate::kafka::commands::Refusal;
use crate::partitions::Topic;

/// First version of Produce whose producers raise their epoch with each transaction, and whose batches add their partition
/// to the transaction by themselves (`transaction.version` 2, KIP-890).
pub(crate) const ADDS_PARTITIONS_FROM: i16 = 12;

/// A batch that would be the first of its transaction in its partition.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "nobody is asked yet")]
pub(crate) struct FirstBatch<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) topic: &'a Topic,
    pub(crate) partition: i32,
    pub(crate) producer_id: ProducerId,
    pub(crate) producer_epoch: ProducerEpoch,
    /// The partition is to be added to the transaction if it is not in it; otherwise it must be.
    pub(crate) adds_partition: bool,
}

/// Asks the coordinator whether the transaction is under way and includes the partition.
///
/// # Errors
/// The answer for the producer.
pub(crate) async fn verify_transaction(_context: &Context, _batch: FirstBatch<'_>) -> Result<(), Refusal> {
    let message = "transactions are not supported yet".to_owned();
    Err(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed, message))
}

/// Makes sure that the partition of `__consumer_offsets` to which `group_id` belongs is in the transaction: for
/// TxnOffsetCommit.
///
/// # Errors
/// The answer for the client.
pub(crate) async fn add_offsets_partition(
    _context: &Context,
    (_transactional_id, _producer): (&str, TransactionalProducer),
    _group_id: &str,
    _adds_partition: bool,
) -> Result<(), Refusal> {
    let message = "transactions are not supported yet".to_owned();
    Err(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed, message))
}
