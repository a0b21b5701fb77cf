//! TxnOffsetCommit (28): offsets that become part of a transaction, and count when it is committed.

use tailrace_broker::coordinator::TransactionalProducer;
use tailrace_broker::groups::{
    CommitPartition, CommitRequest, CommitTopic, CommittedTopic, Committer, GroupError, OffsetsEvent,
    OffsetsReply, TopicReference,
};
use tailrace_kafka_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use tailrace_kafka_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_types::{ProducerEpoch, ProducerId};

use crate::connection::Closed;
use crate::kafka::groups::group_code;
use crate::kafka::transactions::add_offsets_partition;
use crate::kafka::{Context, Decided, answer_later, decode};

/// First version that adds the offsets' partition to the transaction by itself (KIP-890).
const ADDS_PARTITION_FROM: i16 = 5;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: TxnOffsetCommitRequest = decode(&context, reader)?;
    let skeleton: Vec<_> = request.topics.iter().map(skeleton).collect();
    let producer = TransactionalProducer {
        id: ProducerId(request.producer_id),
        epoch: ProducerEpoch(request.producer_epoch),
    };
    let adds = context.version() >= ADDS_PARTITION_FROM;
    let transaction = (request.transactional_id.as_str(), producer);
    if let Err(refusal) = add_offsets_partition(&context, transaction, &request.group_id, adds).await {
        tracing::debug!(group = request.group_id, message = %refusal.message, "offsets are not in a transaction");
        let response = response(all(skeleton, as_coordinator(refusal.code)));
        return Ok(Decided::Reply(context.reply(&response)?));
    }
    let commit = CommitRequest {
        by: Committer {
            member: request.member_id.into(),
            instance: request.group_instance_id.map(Into::into),
            generation_or_epoch: request.generation_id,
            knows_epochs: false,
            transaction: Some(producer),
        },
        retention_ms: None,
        topics: request.topics.into_iter().map(commit_topic).collect(),
    };
    let pending = context.submit_offsets(request.group_id, OffsetsEvent::Commit(commit)).await;
    Ok(answer_later(context, async move {
        response(match pending.offsets().await {
            Ok(OffsetsReply::Commit(Ok(topics))) => topics.into_iter().map(answer).collect(),
            Ok(OffsetsReply::Commit(Err(error))) => all(skeleton, group_code(&error)),
            Ok(_) => all(skeleton, ErrorCode::UnknownServerError),
            Err(code) => all(skeleton, code),
        })
    }))
}

/// Who commits offsets looks for a coordinator where who produces would look for replicas.
fn as_coordinator(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotEnoughReplicas => ErrorCode::CoordinatorNotAvailable,
        code => code,
    }
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

/// The answer to a topic, its codes left open.
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

/// The same code for every partition.
fn all(mut topics: Vec<TxnOffsetCommitResponseTopic>, code: ErrorCode) -> Vec<TxnOffsetCommitResponseTopic> {
    for partition in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.error_code = code.code();
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
