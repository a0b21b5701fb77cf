//! Transactional batches. Before the first one in a partition, the transaction's coordinator is asked
//! (KIP-890).
//!
//! First, a verification guard is drawn from the partition. No end of a transaction may come between guard
//! and batch. A delayed request therefore cannot write into the transaction after its own.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::{BatchHeader, Validated};
use tailrace_replication::{AppendError, Appended, ProducerError, VerificationGuard};
use tailrace_types::{TimestampMs, TopicPartition};

use super::refusal::PartitionRefusal;
use crate::commands::Refusal;
use crate::context::Context;
use crate::errors::Writes;
use crate::transactions::{ADDS_PARTITIONS_FROM, TransactionOwner, add_partitions, verify_partition};
use tailrace_node::partitions::{
    AppendFailure, PartitionHandle, Topic, append, append_verified, begin_verification,
    begin_verification_if_needed,
};
use tailrace_node::taps::WantedBy;

/// First version of Produce whose clients know TRANSACTION_ABORTABLE (KIP-890).
const ABORTABLE_FROM: i16 = 11;

/// Most times that the coordinator is asked about one batch. It is asked again only if a marker was written
/// in between.
const VERIFICATIONS_MAX: usize = 5;

/// A topic of a request, if there is one to which the client may write.
pub(super) type FoundTopic<'a> = (&'a TopicProduceData, &'a Result<Arc<Topic>, ErrorCode>);

/// The transaction that a request writes into.
///
/// If the request adds several partitions, they are added at once, because every answer of the coordinator
/// waits for its log.
pub(super) struct Transaction {
    id: String,
    /// Guards of the partitions about which the coordinator was asked for the whole request.
    guards: HashMap<TopicPartition, VerificationGuard>,
    /// The coordinator's answer about them, if it refused.
    refusal: Option<Refusal>,
}

impl Transaction {
    /// Adds the partitions of a request to its transaction. Requests with one partition are left to
    /// [`Self::append`]. Clients that add partitions themselves need nothing.
    pub(super) async fn enter(context: &Context, id: String, topics: &[FoundTopic<'_>]) -> Self {
        let mut entered = Self { id, guards: HashMap::new(), refusal: None };
        let partitions =
            topics.iter().map(|(data, _)| data).map(|topic| topic.partition_data.len()).sum::<usize>();
        if context.version() < ADDS_PARTITIONS_FROM || partitions < 2 {
            return entered;
        }
        if let Some(producer) = entered.draw_guards(context, topics).await {
            let partitions = entered.guards.keys().cloned().collect();
            entered.refusal = add_partitions(context, entered.owner(producer), partitions).await.err();
        }
        entered
    }

    /// Draws the guards of the partitions in which the transaction starts with this request. Returns their
    /// producer, the first one in the batches, if there are any guards. If a client mixes producers, the
    /// others are handled one by one.
    async fn draw_guards(
        &mut self,
        context: &Context,
        topics: &[FoundTopic<'_>],
    ) -> Option<TransactionalProducer> {
        let mut by = None;
        for (data, topic) in topics {
            let Ok(topic) = topic else { continue };
            if topic.internal {
                continue;
            }
            for data in &data.partition_data {
                let Ok(handle) = topic.here(data.index) else { continue };
                let Some(header) = header(data) else { continue };
                if *by.get_or_insert(producer(&header)) != producer(&header) {
                    continue;
                }
                let (caller, now) = (context.caller(), context.node().now());
                if let Some(guard) = begin_verification_if_needed(caller, handle, &header, true, now).await {
                    self.guards.insert(handle.id.clone(), guard);
                }
            }
        }
        by.filter(|_| !self.guards.is_empty())
    }

    /// Asks the coordinator before the first batch in this partition. As in Kafka, this comes before the
    /// batch is checked, so that a fenced producer learns that it is fenced, and not of an error that it
    /// might fix.
    pub(super) async fn enter_partition(
        &self,
        context: &Context,
        handle: &Arc<PartitionHandle>,
        header: &BatchHeader,
        now: TimestampMs,
    ) -> Result<Option<VerificationGuard>, Refusal> {
        if let Some(guard) = self.guard(handle)? {
            return Ok(Some(guard));
        }
        let adds_partition = context.version() >= ADDS_PARTITIONS_FROM;
        let caller = context.caller();
        let guard = begin_verification_if_needed(caller, handle, header, adds_partition, now).await;
        if guard.is_some() {
            let owner = self.owner(producer(header));
            verify_partition(context, owner, handle.id.clone(), adds_partition, ABORTABLE_FROM).await?;
        }
        Ok(guard)
    }

    /// Appends a batch with the guard of [`Self::enter_partition`].
    ///
    /// A producer may start its next transaction while the markers of the previous one are being written. The
    /// coordinator's answer waits for these markers. A marker written meanwhile invalidates the guard, and
    /// then the coordinator is asked again.
    pub(super) async fn append(
        &self,
        context: &Context,
        handle: &Arc<PartitionHandle>,
        batch: Validated,
        guard: Option<VerificationGuard>,
        now: TimestampMs,
        wanted: WantedBy,
    ) -> Result<Appended, PartitionRefusal> {
        let node = context.node();
        let refusal = |failure| PartitionRefusal::of_append(failure, handle.reader.log_start());
        let mut result = match guard {
            Some(guard) => {
                append_verified(node, context.caller(), handle, batch.clone(), guard, now, wanted).await
            }
            None => append(node, context.caller(), handle, batch.clone(), now, wanted).await,
        };
        let adds_partition = context.version() >= ADDS_PARTITIONS_FROM;
        for _ in 0..VERIFICATIONS_MAX {
            if !is_unverified(&result) {
                break;
            }
            let guard =
                begin_verification(context.caller(), handle, &batch.header, adds_partition, now).await;
            let guard = guard.map_err(refusal)?;
            let owner = self.owner(producer(&batch.header));
            verify_partition(context, owner, handle.id.clone(), adds_partition, ABORTABLE_FROM).await?;
            result = append_verified(node, context.caller(), handle, batch.clone(), guard, now, wanted).await;
        }
        result.map_err(refusal)
    }

    fn owner(&self, producer: TransactionalProducer) -> TransactionOwner<'_> {
        TransactionOwner { transactional_id: &self.id, producer, writes: Writes::Records }
    }

    /// Returns the guard of a partition about which the coordinator was asked for the whole request.
    ///
    /// # Errors
    /// The coordinator's answer, if it refused.
    fn guard(&self, handle: &PartitionHandle) -> Result<Option<VerificationGuard>, Refusal> {
        match (self.guards.get(&handle.id), &self.refusal) {
            (Some(_), Some(refusal)) => Err(refusal.clone()),
            (guard, _) => Ok(guard.copied()),
        }
    }
}

/// Returns the batch's header if there is exactly one complete batch. Its fields are not validated.
pub(super) fn header(data: &PartitionProduceData) -> Option<BatchHeader> {
    let Records::Bytes(bytes) = &data.records else { return None };
    BatchHeader::parse(bytes).ok().filter(|header| header.total_bytes() == bytes.len())
}

fn producer(header: &BatchHeader) -> TransactionalProducer {
    TransactionalProducer { id: header.producer_id, epoch: header.producer_epoch }
}

fn is_unverified(result: &Result<Appended, AppendFailure>) -> bool {
    let Err(AppendFailure::Refused(AppendError::Producer(error))) = result else { return false };
    matches!(error, ProducerError::Unverified { .. })
}
