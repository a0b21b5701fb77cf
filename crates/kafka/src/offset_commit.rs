//! OffsetCommit (8): stores a group's offsets. The answer is sent when they are as durable as
//! `__consumer_offsets`.

use std::sync::Arc;

use tailrace_coordination::groups::{
    CommitPartition, CommitRequest, CommitTopic, CommittedTopic, Committer, OffsetsEvent, OffsetsReply,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestTopic};
use tailrace_kafka_wire::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_metadata::{MetadataImage, TopicRef};
use tailrace_types::TopicId;

use crate::audited::Audited;
use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::group_code;
use crate::groups::{check_topic, unknown_code};

/// First version whose clients know member epochs (KIP-848).
const EPOCHS_FROM: i16 = 9;

/// First version that names topics by id.
const IDS_FROM: i16 = 10;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: OffsetCommitRequest = decode(&context, reader)?;
    let version = context.version();
    let topics: Vec<CommitTopic> =
        request.topics.into_iter().map(|topic| commit_topic(topic, version)).collect();
    if let Err(code) = context.rights().group(Operation::Read, &request.group_id) {
        let topics = topics.iter().map(|topic| refused_topic(topic, code)).collect();
        return Ok(Decided::Reply(context.reply(OffsetCommitResponse { topics, ..Default::default() })?));
    }
    let (topics, refused) = split(&context, topics);
    if topics.is_empty() && !refused.is_empty() {
        let response = OffsetCommitResponse { topics: refused, ..Default::default() };
        return Ok(Decided::Reply(context.reply(response)?));
    }
    // The partitions to list in an answer that is made without the coordinator.
    let asked: Vec<_> = topics
        .iter()
        .map(|topic| {
            (topic.topic.clone(), topic.partitions.iter().map(|partition| partition.index).collect())
        })
        .collect();
    let commit = CommitRequest {
        by: Committer {
            member: request.member_id.into(),
            instance: request.group_instance_id.map(Arc::from),
            generation_or_epoch: request.generation_id_or_member_epoch,
            knows_epochs: version >= EPOCHS_FROM,
            transaction: None,
        },
        retention_ms: Some(request.retention_time_ms).filter(|&ms| ms >= 0),
        topics,
    };
    let change = audited(&context, &request.group_id, &commit);
    let pending = context.submit_offsets(request.group_id, OffsetsEvent::Commit(commit)).await;
    let image = context.node().image();
    let all = move |asked, code| all(&image, asked, code);
    Ok(answer_later(context, async move {
        let mut response = match pending.offsets().await {
            Ok(OffsetsReply::Commit(Ok(topics))) => committed(topics),
            Ok(OffsetsReply::Commit(Err(error))) => all(asked, group_code(&error)),
            Ok(_) => all(asked, ErrorCode::UnknownServerError),
            Err(code) => all(asked, code),
        };
        if let Some(change) = change {
            record(change, &response.topics);
        }
        response.topics.extend(refused);
        response
    }))
}

/// Begins the event of offsets that the client sets without being a member, as an administrator does who
/// resets them.
fn audited(context: &Context, group: &str, commit: &CommitRequest) -> Option<Audited> {
    let by = &commit.by;
    let is_member = !by.member.is_empty() || by.instance.is_some() || by.generation_or_epoch >= 0;
    if is_member || !context.session.moved_groups.is_new(group) {
        return None;
    }
    let mut change = context.audited_common(&format_args!("SetOffsets of {}", group.escape_debug()));
    for CommitTopic { topic, partitions } in &commit.topics {
        for partition in partitions {
            let (index, offset) = (partition.index, partition.offset);
            match topic {
                TopicRef::Name(name) => {
                    change.add(&format_args!("{}-{index} to {offset}", name.escape_debug()));
                }
                TopicRef::Id(id) => change.add(&format_args!("{id}-{index} to {offset}")),
            }
        }
    }
    Some(change)
}

fn record(mut change: Audited, topics: &[OffsetCommitResponseTopic]) {
    let codes = topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code);
    for code in codes {
        change.became(ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError));
    }
    change.end();
}

/// Returns the topics that the client may read, and the answers for the others.
fn split(context: &Context, topics: Vec<CommitTopic>) -> (Vec<CommitTopic>, Vec<OffsetCommitResponseTopic>) {
    let rights = context.rights();
    let (mut readable, mut refused) = (Vec::with_capacity(topics.len()), Vec::new());
    for topic in topics {
        match check_topic(context, &rights, Operation::Read, &topic.topic) {
            Ok(()) => readable.push(topic),
            Err(code) => refused.push(refused_topic(&topic, code)),
        }
    }
    (readable, refused)
}

fn refused_topic(topic: &CommitTopic, code: ErrorCode) -> OffsetCommitResponseTopic {
    response_topic(topic.topic.clone(), topic.partitions.iter().map(|partition| (partition.index, code)))
}

fn commit_topic(topic: OffsetCommitRequestTopic, version: i16) -> CommitTopic {
    let partitions = topic.partitions.into_iter().map(|partition| CommitPartition {
        index: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.unwrap_or_default(),
    });
    CommitTopic { topic: reference(topic.name, topic.topic_id, version), partitions: partitions.collect() }
}

fn reference(name: String, id: [u8; 16], version: i16) -> TopicRef {
    if version >= IDS_FROM { TopicRef::Id(TopicId(id)) } else { TopicRef::Name(name) }
}

fn committed(topics: Vec<CommittedTopic>) -> OffsetCommitResponse {
    let topics = topics.into_iter().map(|topic| {
        let codes = topic
            .partitions
            .into_iter()
            .map(|(index, fate)| (index, fate.map_or_else(|error| group_code(&error), |()| ErrorCode::None)));
        response_topic(topic.topic, codes)
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

/// Returns the same code for every partition that exists.
fn all(image: &MetadataImage, asked: Vec<(TopicRef, Vec<i32>)>, code: ErrorCode) -> OffsetCommitResponse {
    let topics = asked.into_iter().map(|(topic, partitions)| {
        let code_of = |index| (index, unknown_code(image, &topic, index).unwrap_or(code));
        let codes: Vec<_> = partitions.into_iter().map(code_of).collect();
        response_topic(topic, codes.into_iter())
    });
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

fn response_topic(
    topic: TopicRef,
    codes: impl Iterator<Item = (i32, ErrorCode)>,
) -> OffsetCommitResponseTopic {
    let (name, topic_id) = match topic {
        TopicRef::Name(name) => (name, [0; 16]),
        TopicRef::Id(id) => (String::new(), id.0),
    };
    let partitions = codes.map(|(partition_index, code)| OffsetCommitResponsePartition {
        partition_index,
        error_code: code.code(),
        ..Default::default()
    });
    OffsetCommitResponseTopic { name, topic_id, partitions: partitions.collect(), ..Default::default() }
}
