//! Shared parts of the transaction APIs, and the data path's requests to a transaction's coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;
use tailrace_env::task;

use tailrace_coordination::coordinator::{Token, TransactionalProducer};
use tailrace_coordination::transactions::{TransactionError, TransactionEvent, TransactionReply};
use tailrace_kafka_wire::ErrorCode;
use tailrace_metadata::CONSUMER_OFFSETS_TOPIC;
use tailrace_types::{PartitionId, ProducerEpoch, ProducerId, TopicName, TopicPartition};

use crate::commands::Refusal;
use crate::context::Context;
use crate::errors::{Writes, coordinator_code, not_entered_code, producer_id_code, transaction_code};
use tailrace_node::ask::{EnterTransaction, Entered, enter_transaction};
use tailrace_node::coordinators::{CoordinatorFailure, Pending};
use tailrace_node::{Caller, Node};

/// First version of Produce whose producers raise their epoch with each transaction, and whose batches add
/// their partition to the transaction automatically (`transaction.version` 2, KIP-890).
pub(crate) const ADDS_PARTITIONS_FROM: i16 = 12;

/// Most times that a request is submitted with a new producer id. It is submitted again only if another
/// request used up epochs in between.
const FRESH_IDS_MAX: usize = 5;

/// Makes an event from the token of the request and an unused producer id.
pub(crate) trait MakeEvent:
    Fn(Token, Option<ProducerId>) -> TransactionEvent + Clone + Send + 'static
{
}

impl<F: Fn(Token, Option<ProducerId>) -> TransactionEvent + Clone + Send + 'static> MakeEvent for F {}

/// A request that the coordinator has received, in the order in which the connection sent it.
pub(crate) struct Asked<E> {
    node: Arc<Node>,
    caller: Caller,
    transactional_id: String,
    event: E,
    pending: Result<Pending<TransactionReply>, CoordinatorFailure>,
}

/// Submits an event. Resubmits it with a new producer id if the coordinator needs one, because ids are not
/// drawn in advance.
pub(crate) async fn ask<E: MakeEvent>(
    node: &Arc<Node>,
    caller: &Caller,
    transactional_id: &str,
    event: E,
) -> Asked<E> {
    let pending = submit(node, caller, transactional_id, event.clone(), None).await;
    let (node, caller) = (Arc::clone(node), caller.clone());
    Asked { node, caller, transactional_id: transactional_id.to_owned(), event, pending }
}

async fn submit<E: MakeEvent>(
    node: &Arc<Node>,
    caller: &Caller,
    transactional_id: &str,
    event: E,
    fresh: Option<ProducerId>,
) -> Result<Pending<TransactionReply>, CoordinatorFailure> {
    let event = move |token| event(token, fresh);
    node.transactions().submit(node, caller, transactional_id, event).await
}

impl<E: MakeEvent> Asked<E> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The reason why there is none, as the client is told.
    pub(crate) async fn reply(self) -> Result<TransactionReply, Refusal> {
        let Self { node, caller, transactional_id, event, mut pending } = self;
        for _ in 0..FRESH_IDS_MAX {
            let reply = pending.map_err(unavailable)?.reply().await.map_err(unavailable)?;
            match reply {
                TransactionReply::FreshIdNeeded => {}
                TransactionReply::Refused(error) => return Err(refused(&error)),
                reply => return Ok(reply),
            }
            let fresh = Some(fresh_id(&node, &caller).await?);
            pending = submit(&node, &caller, &transactional_id, event.clone(), fresh).await;
        }
        Err(refused(&TransactionError::Concurrent))
    }
}

/// Returns an unused producer id.
pub(crate) async fn fresh_id(node: &Arc<Node>, caller: &Caller) -> Result<ProducerId, Refusal> {
    let (node, caller) = (Arc::clone(node), caller.clone());
    // Spawned, so that a reserved block of ids is recorded even if the client disconnects meanwhile.
    let work = async move { node.reserve_producer_id(&caller).await };
    match task::spawn(work).await {
        Ok(Ok(id)) => Ok(id),
        Ok(Err(error)) => {
            tracing::error!(%error, "no producer id could be allocated");
            Err(Refusal::new(producer_id_code(&error), error.to_string()))
        }
        Err(error) => {
            tracing::error!(%error, "allocating a producer id panicked");
            Err(Refusal::new(ErrorCode::UnknownServerError, "allocating a producer id failed"))
        }
    }
}

fn unavailable(failure: CoordinatorFailure) -> Refusal {
    Refusal::new(coordinator_code(&failure), failure.to_string())
}

fn refused(error: &TransactionError) -> Refusal {
    Refusal::new(transaction_code(error), error.to_string())
}

/// An answer that the coordinator never gives to this event.
pub(crate) fn unexpected(reply: &TransactionReply) -> Refusal {
    tracing::error!(?reply, "the coordinator of transactions gave an unexpected answer");
    Refusal::new(ErrorCode::UnknownServerError, "the coordinator gave an unexpected answer")
}

/// Replaces PRODUCER_FENCED for clients that are too old to know it.
pub(crate) fn fenced_from(version: i16, first: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if version < first => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

/// The transaction that a request writes into, and the producer that owns it according to the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionOwner<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) producer: TransactionalProducer,
    pub(crate) writes: Writes,
}

impl TransactionOwner<'_> {
    fn enters(self, partitions: &BTreeSet<TopicPartition>, adds: bool) -> EnterTransaction {
        EnterTransaction::new(self.transactional_id.to_owned(), self.producer, partitions, adds)
    }
}

/// Returns the producer in a request.
pub(crate) fn producer(id: i64, epoch: i16) -> TransactionalProducer {
    TransactionalProducer { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
}

/// Verifies that a partition is in the transaction, before the first batch or the first offsets in it. With
/// `adds_partition` it is added. Otherwise it must be there already. The request knows TRANSACTION_ABORTABLE
/// from version `abortable_from` on.
///
/// # Errors
/// The answer for the producer.
pub(crate) async fn verify_partition(
    context: &Context,
    owner: TransactionOwner<'_>,
    partition: TopicPartition,
    adds_partition: bool,
    abortable_from: i16,
) -> Result<(), Refusal> {
    let partitions = BTreeSet::from([partition]);
    let question = owner.enters(&partitions, adds_partition);
    enter(context, question, owner.writes, adds_partition, context.version() >= abortable_from).await
}

/// Adds several partitions to the transaction at once, before their first batches.
///
/// # Errors
/// The answer for the producer. In this case no partition is added.
pub(crate) async fn add_partitions(
    context: &Context,
    owner: TransactionOwner<'_>,
    partitions: BTreeSet<TopicPartition>,
) -> Result<(), Refusal> {
    enter(context, owner.enters(&partitions, true), owner.writes, true, true).await
}

async fn enter(
    context: &Context,
    question: EnterTransaction,
    writes: Writes,
    adds: bool,
    knows_abortable: bool,
) -> Result<(), Refusal> {
    let not_entered = match enter_transaction(context.node(), context.caller(), question).await {
        Ok(Entered::All) => return Ok(()),
        Ok(Entered::NotAll) => {
            let code =
                if knows_abortable { ErrorCode::TransactionAbortable } else { ErrorCode::InvalidTxnState };
            return Err(Refusal::new(code, "The partition was not added to the transaction."));
        }
        Err(not_entered) => not_entered,
    };
    Err(Refusal::new(not_entered_code(&not_entered, writes, adds), not_entered.to_string()))
}

/// Returns the partition of `__consumer_offsets` that holds the group.
pub(crate) async fn group_partition(
    node: &Arc<Node>,
    caller: &Caller,
    group_id: &str,
) -> Result<TopicPartition, Refusal> {
    let unavailable =
        || Refusal::new(ErrorCode::CoordinatorNotAvailable, "The groups' offsets are not available.");
    let partition = node.groups().partition_of(node, caller, group_id).await;
    let partition =
        partition.map_err(|failure| Refusal::new(coordinator_code(&failure), failure.to_string()))?;
    let name = TopicName::new(CONSUMER_OFFSETS_TOPIC).map_err(|_| unavailable())?;
    Ok(TopicPartition::new(name, PartitionId(partition)))
}
