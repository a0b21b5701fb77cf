//! AddPartitionsToTxn (24): adds partitions to a transaction before the producer writes to them.
//!
//! Up to version 3, clients send it for one transaction. From version 4 on, brokers send it for several
//! transactions, and may only verify that partitions are in them. tailrace itself verifies without this
//! request, so these versions serve tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{
    AddPartitions, TransactionEvent, TransactionProtocol, TransactionReply, VerifyPartitions,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use tailrace_kafka_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_types::{PartitionId, TopicName, TopicPartition};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::transactions::{Asked, MakeEvent, ask, fenced_from, producer, unexpected};
use tailrace_node::partitions::TopicTable;

/// First version with several transactions. Brokers send it.
const SEVERAL_FROM: i16 = 4;

/// First version whose senders know PRODUCER_FENCED, and TRANSACTION_ABORTABLE.
const FENCED_FROM: i16 = 2;
const ABORTABLE_FROM: i16 = 5;

/// One transaction of a request.
#[derive(Clone)]
struct PartitionsToAdd {
    transactional_id: String,
    producer: TransactionalProducer,
    verify_only: bool,
    topics: Vec<AddPartitionsToTxnTopic>,
    partitions: BTreeSet<TopicPartition>,
    protocol: TransactionProtocol,
}

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: AddPartitionsToTxnRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let version = context.version();
    if let Err(code) = check_sender(&context, &request) {
        return Ok(Decided::Reply(context.reply(refused(&request, code, version))?));
    }
    let mut asked = Vec::new();
    for transaction in transactions(request, version) {
        let wanted = begin(&context, transaction, version);
        asked.push(match wanted {
            Ok(wanted) => Ok((wanted.topics.clone(), submit(&context, wanted).await)),
            Err(results) => Err(results),
        });
    }
    Ok(answer_later(context, async move {
        let mut results = Vec::with_capacity(asked.len());
        for one in asked {
            results.push(match one {
                Ok((topics, (transactional_id, asked))) => AddPartitionsToTxnResult {
                    transactional_id,
                    topic_results: outcome(&topics, asked, version).await,
                    ..Default::default()
                },
                Err(result) => result,
            });
        }
        response(results, version)
    }))
}

/// Refuses a client that may not write with the transactional id. From version 4 on, only brokers send the
/// request.
fn check_sender(context: &Context, request: &AddPartitionsToTxnRequest) -> Result<(), ErrorCode> {
    let rights = context.rights();
    if context.version() >= SEVERAL_FROM {
        return rights.cluster(Operation::ClusterAction);
    }
    rights.transactional_id(Operation::Write, &request.v3_and_below_transactional_id)
}

fn refused(request: &AddPartitionsToTxnRequest, code: ErrorCode, version: i16) -> AddPartitionsToTxnResponse {
    if version >= SEVERAL_FROM {
        return AddPartitionsToTxnResponse { error_code: code.code(), ..Default::default() };
    }
    let results_by_topic_v3_and_below = results(&request.v3_and_below_topics, |_, _| code);
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
}

/// Returns the request's transactions in the newer form.
fn transactions(request: AddPartitionsToTxnRequest, version: i16) -> Vec<AddPartitionsToTxnTransaction> {
    if version >= SEVERAL_FROM {
        return request.transactions;
    }
    vec![AddPartitionsToTxnTransaction {
        transactional_id: request.v3_and_below_transactional_id,
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        topics: request.v3_and_below_topics,
        ..Default::default()
    }]
}

fn response(mut results: Vec<AddPartitionsToTxnResult>, version: i16) -> AddPartitionsToTxnResponse {
    if version >= SEVERAL_FROM {
        return AddPartitionsToTxnResponse { results_by_transaction: results, ..Default::default() };
    }
    let results_by_topic_v3_and_below =
        results.pop().expect("a request of these versions names one transaction").topic_results;
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
}

/// Checks that the client may write to all partitions, and that they exist. If not, none is added.
fn begin(
    context: &Context,
    transaction: AddPartitionsToTxnTransaction,
    version: i16,
) -> Result<PartitionsToAdd, AddPartitionsToTxnResult> {
    let table = Arc::clone(&context.node().topics());
    let mut partitions = BTreeSet::new();
    let mut refused = BTreeMap::new();
    let rights = context.rights();
    for topic in &transaction.topics {
        let may_write =
            if version < SEVERAL_FROM { rights.topic(Operation::Write, &topic.name) } else { Ok(()) };
        for &index in &topic.partitions {
            match may_write.and_then(|()| find(&table, &topic.name, index)) {
                Ok(partition) => drop(partitions.insert(partition)),
                Err(code) => drop(refused.insert((topic.name.as_str(), index), code)),
            }
        }
    }
    if !refused.is_empty() {
        let code = |topic: &str, index| {
            refused.get(&(topic, index)).copied().unwrap_or(ErrorCode::OperationNotAttempted)
        };
        return Err(AddPartitionsToTxnResult {
            topic_results: results(&transaction.topics, code),
            transactional_id: transaction.transactional_id,
            ..Default::default()
        });
    }
    let protocol = if version >= SEVERAL_FROM {
        TransactionProtocol::EpochPerTransaction
    } else {
        TransactionProtocol::Classic
    };
    Ok(PartitionsToAdd {
        transactional_id: transaction.transactional_id,
        producer: producer(transaction.producer_id, transaction.producer_epoch),
        verify_only: transaction.verify_only,
        topics: transaction.topics,
        partitions,
        protocol,
    })
}

/// Finds a partition. Refuses internal topics, because AddOffsetsToTxn adds their partitions.
fn find(table: &TopicTable, name: &str, index: i32) -> Result<TopicPartition, ErrorCode> {
    let topic = table.by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if !topic.has(index) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    if topic.internal {
        return Err(ErrorCode::InvalidTopicException);
    }
    Ok(TopicPartition::new(TopicName::clone(&topic.name), PartitionId(index)))
}

async fn submit(context: &Context, wanted: PartitionsToAdd) -> (String, Asked<impl MakeEvent>) {
    let transactional_id = wanted.transactional_id.clone();
    let event = move |token, _| {
        let PartitionsToAdd { transactional_id, producer, partitions, protocol, .. } = wanted.clone();
        if wanted.verify_only {
            TransactionEvent::Verify(VerifyPartitions { token, transactional_id, producer, partitions })
        } else {
            TransactionEvent::Add(AddPartitions { token, transactional_id, producer, partitions, protocol })
        }
    };
    let asked = ask(context.node(), context.caller(), &transactional_id, event).await;
    (transactional_id, asked)
}

async fn outcome(
    topics: &[AddPartitionsToTxnTopic],
    asked: Asked<impl MakeEvent>,
    version: i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let missing_code =
        if version >= ABORTABLE_FROM { ErrorCode::TransactionAbortable } else { ErrorCode::InvalidTxnState };
    match asked.reply().await {
        Ok(TransactionReply::Added) => results(topics, |_, _| ErrorCode::None),
        Ok(TransactionReply::Verified { missing }) => {
            let missing: BTreeSet<_> =
                missing.iter().map(|partition| (partition.topic.as_str(), partition.partition.0)).collect();
            let code = |topic: &str, index| {
                if missing.contains(&(topic, index)) { missing_code } else { ErrorCode::None }
            };
            results(topics, code)
        }
        Ok(reply) => {
            let code = unexpected(&reply).code;
            results(topics, |_, _| code)
        }
        Err(refusal) => {
            let code = fenced_from(version, FENCED_FROM, refusal.code);
            results(topics, |_, _| code)
        }
    }
}

fn results(
    topics: &[AddPartitionsToTxnTopic],
    code: impl Fn(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let result = |topic: &AddPartitionsToTxnTopic| {
        let partition = |&index: &i32| AddPartitionsToTxnPartitionResult {
            partition_index: index,
            partition_error_code: code(&topic.name, index).code(),
            ..Default::default()
        };
        AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic.partitions.iter().map(partition).collect(),
            ..Default::default()
        }
    };
    topics.iter().map(result).collect()
}
