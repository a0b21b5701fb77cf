//! What the APIs of transactions share, and what the data path asks of a transaction's coordinator.

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

/// First version of Produce whose producers raise their epoch with each transaction, and whose batches add their partition
/// to the transaction by themselves (`transaction.version` 2, KIP-890).
pub(crate) const ADDS_PARTITIONS_FROM: i16 = 12;

/// Times that a request is submitted with a fresh producer id, at most. Each time but the last, another request used up
/// epochs in between.
const FRESH_IDS_MAX: usize = 5;

/// An event, given whom to answer and a producer id that nobody has.
pub(crate) trait MakeEvent:
    Fn(Token, Option<ProducerId>) -> TransactionEvent + Clone + Send + 'static
{
}

impl<F: Fn(Token, Option<ProducerId>) -> TransactionEvent + Clone + Send + 'static> MakeEvent for F {}

/// A request that the coordinator has, in the order in which the connection sent it.
pub(crate) struct Asked<E> {
    node: Arc<Node>,
    caller: Caller,
    transactional_id: String,
    event: E,
    pending: Result<Pending<TransactionReply>, CoordinatorFailure>,
}

/// Submits an event. It may be submitted again with a fresh producer id, if one is needed: ids are not drawn in advance.
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
    /// The answer.
    ///
    /// # Errors
    /// Why there is none, as a client is told.
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

/// A producer id that nobody has.
pub(crate) async fn fresh_id(node: &Arc<Node>, caller: &Caller) -> Result<ProducerId, Refusal> {
    let (node, caller) = (Arc::clone(node), caller.clone());
    // Spawned, so that a block of ids that was reserved is noted even if the client goes away meanwhile.
    let work = async move { node.reserve_producer_id(&caller).await };
    match task::spawn(work).await {
        Ok(Ok(id)) => Ok(id),
        Ok(Err(error)) => {
            tracing::error!(%error, "no producer id could be handed out");
            Err(Refusal::new(producer_id_code(&error), error.to_string()))
        }
        Err(error) => {
            tracing::error!(%error, "handing out a producer id panicked");
            Err(Refusal::new(ErrorCode::UnknownServerError, "handing out a producer id failed"))
        }
    }
}

fn unavailable(failure: CoordinatorFailure) -> Refusal {
    Refusal::new(coordinator_code(&failure), failure.to_string())
}

fn refused(error: &TransactionError) -> Refusal {
    Refusal::new(transaction_code(error), error.to_string())
}

/// An answer that the coordinator never gives to this question.
pub(crate) fn unexpected(reply: &TransactionReply) -> Refusal {
    tracing::error!(?reply, "the coordinator of transactions gave an answer that does not fit");
    Refusal::new(ErrorCode::UnknownServerError, "the coordinator gave an answer that does not fit")
}

/// PRODUCER_FENCED is known to clients from some version of each request on.
pub(crate) fn fenced_from(version: i16, first: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if version < first => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

/// Whose transaction a request writes into: the producer that has the transactional id, as the request says.
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

/// The producer that a request names.
pub(crate) fn producer(id: i64, epoch: i16) -> TransactionalProducer {
    TransactionalProducer { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
}

/// Makes sure that a partition is in the transaction, for the first batch or the first offsets in it. With `adds_partition` it is
/// added; without, it must be there. The request knows TRANSACTION_ABORTABLE from version `abortable_from` on.
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

/// Adds several partitions to the transaction at once, for their first batches.
///
/// # Errors
/// The answer for the producer; none is added then.
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

/// The partition of `__consumer_offsets` to which a group belongs.
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
