//! TxnOffsetCommit (28): commits offsets within a transaction. They take effect when it is committed.

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::groups::{
    CommitPartition, CommitRequest, CommitTopic, CommittedTopic, Committer, GroupCoordinator, GroupError,
    OffsetsEvent, OffsetsReply, TopicReference,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_metadata::MetadataImage;
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::closed::Closed;
use crate::commands::Refusal;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::Writes;
use crate::errors::group_code;
use crate::groups::{PendingGroup, unknown_code};
use crate::transactions::{TransactionOwner, group_partition, verify_partition};

/// First version that adds the offsets' partition to the transaction automatically (KIP-890).
const ADDS_PARTITION_FROM: i16 = 5;

/// First version whose clients know TRANSACTION_ABORTABLE (KIP-890). It does not add partitions yet.
const ABORTABLE_FROM: i16 = 4;

/// Most times that the transaction's coordinator is asked. A second time is enough unless transactions end
/// constantly.
const VERIFICATIONS_MAX: usize = 5;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: TxnOffsetCommitRequest = decode(&context, reader)?;
    if let Err(code) = check_rights(&context, &request) {
        let topics = request.topics.iter().map(|topic| with_code(skeleton(topic), code)).collect();
        return Ok(Decided::Reply(context.reply(response(topics))?));
    }
    let rights = context.rights();
    let may_read = |topic: &TxnOffsetCommitRequestTopic| rights.topic(Operation::Read, &topic.name).is_ok();
    let (topics, hidden): (Vec<_>, Vec<_>) = request.topics.into_iter().partition(may_read);
    drop(rights);
    let hidden = hidden.iter().map(|topic| with_code(skeleton(topic), ErrorCode::TopicAuthorizationFailed));
    let hidden: Vec<_> = hidden.collect();
    if topics.is_empty() && !hidden.is_empty() {
        return Ok(Decided::Reply(context.reply(response(hidden))?));
    }
    let skeleton: Vec<_> = topics.iter().map(skeleton).collect();
    let producer = TransactionalProducer {
        id: ProducerId(request.producer_id),
        epoch: ProducerEpoch(request.producer_epoch),
    };
    let commit = CommitRequest {
        by: Committer {
            member: request.member_id.into(),
            instance: request.group_instance_id.map(Into::into),
            generation_or_epoch: request.generation_id,
            knows_epochs: false,
            transaction: Some(producer),
        },
        retention_ms: None,
        topics: topics.into_iter().map(commit_topic).collect(),
    };
    // A request without a known partition adds nothing to the transaction.
    let image = context.node().image();
    let all = move |topics, code| all(&image, topics, code);
    let response = move |mut topics: Vec<_>| {
        topics.extend(hidden);
        response(topics)
    };
    let refused = match &commit.topics[..] {
        topics if !topics.iter().any(|topic| has_known_partition(&context, topic)) => {
            Some(ErrorCode::UnknownTopicOrPartition)
        }
        _ if request.group_id.is_empty() => Some(ErrorCode::InvalidGroupId),
        _ => None,
    };
    if let Some(code) = refused {
        return Ok(Decided::Reply(context.reply(response(all(skeleton, code)))?));
    }
    let owner =
        TransactionOwner { transactional_id: &request.transactional_id, producer, writes: Writes::Offsets };
    let pending = match submit(&context, owner, &request.group_id, commit).await {
        Ok(pending) => pending,
        Err(refusal) => {
            tracing::debug!(group = request.group_id, message = %refusal.message, "offsets are not in a transaction");
            let response = response(all(skeleton, refusal.code));
            return Ok(Decided::Reply(context.reply(response)?));
        }
    };
    Ok(answer_later(context, async move {
        response(match pending.offsets().await {
            Ok(OffsetsReply::Commit(Ok(topics))) => topics.into_iter().map(answer).collect(),
            Ok(OffsetsReply::Commit(Err(error))) => all(skeleton, group_code(&error)),
            Ok(_) => all(skeleton, ErrorCode::UnknownServerError),
            Err(code) => all(skeleton, code),
        })
    }))
}

fn check_rights(context: &Context, request: &TxnOffsetCommitRequest) -> Result<(), ErrorCode> {
    let rights = context.rights();
    rights.transactional_id(Operation::Write, &request.transactional_id)?;
    rights.group(Operation::Read, &request.group_id)
}

fn with_code(mut topic: TxnOffsetCommitResponseTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic {
    topic.partitions.iter_mut().for_each(|partition| partition.error_code = code.code());
    topic
}

fn has_known_partition(context: &Context, wanted: &CommitTopic) -> bool {
    let image = context.node().image();
    wanted.partitions.iter().any(|partition| unknown_code(&image, &wanted.topic, partition.index).is_none())
}

/// Asks the transaction's coordinator, then submits the commit.
///
/// With one epoch per transaction (version 5 on), the epoch rejects a commit that arrives after its
/// transaction's end. Without it, a transaction that ends between the two steps would let the commit open
/// another one, which no client ends. Therefore the number of transactions that the producer has ended in the
/// partition must be the same at both steps.
async fn submit(
    context: &Context,
    owner: TransactionOwner<'_>,
    group_id: &str,
    commit: CommitRequest,
) -> Result<PendingGroup, Refusal> {
    let partition = group_partition(context.node(), context.caller(), group_id).await?;
    let (number, producer) = (partition.partition.0, owner.producer.id);
    if context.version() >= ADDS_PARTITION_FROM {
        verify_partition(context, owner, partition, true, ABORTABLE_FROM).await?;
        return Ok(context.submit_offsets(group_id.to_owned(), OffsetsEvent::Commit(commit)).await);
    }
    for _ in 0..VERIFICATIONS_MAX {
        let ended = context.transactions_ended(number, producer).await;
        verify_partition(context, owner, partition.clone(), false, ABORTABLE_FROM).await?;
        let commit = OffsetsEvent::Commit(commit.clone());
        let unended =
            move |core: &GroupCoordinator, epoch| ended == Some((epoch, core.transactions_ended(producer)));
        if let Some(pending) = context.submit_offsets_if(number, group_id, unended, commit).await {
            return Ok(pending);
        }
    }
    Err(Refusal::new(ErrorCode::CoordinatorNotAvailable, "The producer's transactions end too quickly."))
}

fn response(topics: Vec<TxnOffsetCommitResponseTopic>) -> TxnOffsetCommitResponse {
    TxnOffsetCommitResponse { topics, ..Default::default() }
}

fn commit_topic(topic: TxnOffsetCommitRequestTopic) -> CommitTopic {
    let partition = |partition: TxnOffsetCommitRequestPartition| CommitPartition {
        index: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.unwrap_or_default(),
    };
    let partitions = topic.partitions.into_iter().map(partition).collect();
    CommitTopic { topic: TopicReference::Name(topic.name), partitions }
}

/// Returns the answer for a topic, with its codes left open.
fn skeleton(topic: &TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| TxnOffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        ..Default::default()
    });
    TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// Returns the same code for every partition that exists.
fn all(
    image: &MetadataImage,
    mut topics: Vec<TxnOffsetCommitResponseTopic>,
    code: ErrorCode,
) -> Vec<TxnOffsetCommitResponseTopic> {
    for topic in &mut topics {
        let name = TopicReference::Name(topic.name.clone());
        for partition in &mut topic.partitions {
            let unknown = unknown_code(image, &name, partition.partition_index);
            partition.error_code = unknown.unwrap_or(code).code();
        }
    }
    topics
}

fn answer(topic: CommittedTopic) -> TxnOffsetCommitResponseTopic {
    let partition = |(partition_index, fate): (i32, Result<(), GroupError>)| {
        let code = fate.map_or_else(|error| group_code(&error), |()| ErrorCode::None);
        TxnOffsetCommitResponsePartition { partition_index, error_code: code.code(), ..Default::default() }
    };
    let name = match topic.topic {
        TopicReference::Name(name) => name,
        TopicReference::Id(id) => id.to_string(),
    };
    let partitions = topic.partitions.into_iter().map(partition).collect();
    TxnOffsetCommitResponseTopic { name, partitions, ..Default::default() }
}
