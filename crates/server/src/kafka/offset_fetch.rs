//! OffsetFetch (9): a group's stored positions; from version 8 on those of several groups.

use std::sync::Arc;

use tailrace_broker::TopicRef;
use tailrace_broker::groups::{
    FetchRequest, FetchTopic, FetchedPartition, FetchedTopic, OffsetsEvent, OffsetsReply,
};
use tailrace_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use tailrace_kafka_wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_types::TopicId;

use crate::connection::Closed;
use crate::kafka::commands::ITEMS_MAX;
use crate::kafka::groups::{PendingGroup, group_code};
use crate::kafka::{Context, Decided, answer_later, decode};

/// First version whose answer has a code for the group; before, each partition tells.
const GROUP_CODE_FROM: i16 = 2;

/// First version with several groups.
const GROUPS_FROM: i16 = 8;

/// First version in which topics are named by id.
const IDS_FROM: i16 = 10;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: OffsetFetchRequest = decode(&context, reader)?;
    if context.version() >= GROUPS_FROM {
        several(context, request).await
    } else {
        one(context, request).await
    }
}

async fn several(context: Context, request: OffsetFetchRequest) -> Result<Decided, Closed> {
    let (version, require_stable) = (context.version(), request.require_stable);
    let mut pending = Vec::with_capacity(request.groups.len().min(ITEMS_MAX));
    for (number, group) in request.groups.into_iter().enumerate() {
        let group_id = group.group_id.clone();
        if number >= ITEMS_MAX {
            // Each answer may be longer than its question.
            pending.push((group_id, None));
            continue;
        }
        let fetch = fetch_request(group, version, require_stable);
        let asked = context.submit_offsets(group_id.clone(), OffsetsEvent::Fetch(fetch)).await;
        pending.push((group_id, Some(asked)));
    }
    Ok(answer_later(context, async move {
        let mut groups = Vec::with_capacity(pending.len());
        for (group_id, pending) in pending {
            let fetched = match pending {
                Some(pending) => fetched(pending).await,
                None => Err(ErrorCode::PolicyViolation),
            };
            let group = OffsetFetchResponseGroup { group_id, ..Default::default() };
            groups.push(match fetched {
                Ok(topics) => OffsetFetchResponseGroup {
                    topics: topics.into_iter().map(topic_of_group).collect(),
                    ..group
                },
                Err(code) => OffsetFetchResponseGroup { error_code: code.code(), ..group },
            });
        }
        OffsetFetchResponse { groups, ..Default::default() }
    }))
}

fn fetch_request(group: OffsetFetchRequestGroup, version: i16, require_stable: bool) -> FetchRequest {
    let wanted = |topic: OffsetFetchRequestTopics| FetchTopic {
        topic: if version >= IDS_FROM {
            TopicRef::Id(TopicId(topic.topic_id))
        } else {
            TopicRef::Name(topic.name)
        },
        partitions: topic.partition_indexes,
    };
    FetchRequest {
        member: group.member_id.map(Arc::from),
        member_epoch: group.member_epoch,
        topics: group.topics.map(|topics| topics.into_iter().map(wanted).collect()),
        require_stable,
    }
}

async fn one(context: Context, request: OffsetFetchRequest) -> Result<Decided, Closed> {
    let version = context.version();
    let wanted = |topic: &OffsetFetchRequestTopic| FetchTopic {
        topic: TopicRef::Name(topic.name.clone()),
        partitions: topic.partition_indexes.clone(),
    };
    let fetch = FetchRequest {
        topics: request.topics.as_ref().map(|topics| topics.iter().map(wanted).collect()),
        member_epoch: -1,
        require_stable: request.require_stable,
        ..FetchRequest::default()
    };
    let pending = context.submit_offsets(request.group_id, OffsetsEvent::Fetch(fetch)).await;
    Ok(answer_later(context, async move {
        match fetched(pending).await {
            Ok(topics) => OffsetFetchResponse {
                topics: topics.into_iter().map(topic_of_one).collect(),
                ..Default::default()
            },
            Err(code) if version >= GROUP_CODE_FROM => {
                OffsetFetchResponse { error_code: code.code(), ..Default::default() }
            }
            Err(code) => {
                let topics = request.topics.unwrap_or_default().into_iter().map(|topic| failed(topic, code));
                OffsetFetchResponse { topics: topics.collect(), ..Default::default() }
            }
        }
    }))
}

async fn fetched(pending: PendingGroup) -> Result<Vec<FetchedTopic>, ErrorCode> {
    match pending.offsets().await? {
        OffsetsReply::Fetch(Ok(topics)) => Ok(topics),
        OffsetsReply::Fetch(Err(error)) => Err(group_code(&error)),
        _ => Err(ErrorCode::UnknownServerError),
    }
}

/// The fields of a partition's answer: offset, leader epoch, metadata, code.
fn fields(partition: FetchedPartition) -> (i64, i32, String, ErrorCode) {
    match partition.offset {
        Ok(Some(committed)) => {
            (committed.offset, committed.leader_epoch, committed.metadata.to_string(), ErrorCode::None)
        }
        Ok(None) => (-1, -1, String::new(), ErrorCode::None),
        Err(error) => (-1, -1, String::new(), group_code(&error)),
    }
}

fn topic_of_group(topic: FetchedTopic) -> OffsetFetchResponseTopics {
    let partitions = topic.partitions.into_iter().map(|partition| {
        let partition_index = partition.index;
        let (committed_offset, committed_leader_epoch, metadata, code) = fields(partition);
        OffsetFetchResponsePartitions {
            partition_index,
            committed_offset,
            committed_leader_epoch,
            metadata: Some(metadata),
            error_code: code.code(),
            ..Default::default()
        }
    });
    OffsetFetchResponseTopics {
        name: topic.name.to_string(),
        topic_id: topic.id.0,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn topic_of_one(topic: FetchedTopic) -> OffsetFetchResponseTopic {
    let partitions = topic.partitions.into_iter().map(|partition| {
        let partition_index = partition.index;
        let (committed_offset, committed_leader_epoch, metadata, code) = fields(partition);
        OffsetFetchResponsePartition {
            partition_index,
            committed_offset,
            committed_leader_epoch,
            metadata: Some(metadata),
            error_code: code.code(),
            ..Default::default()
        }
    });
    OffsetFetchResponseTopic {
        name: topic.name.to_string(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn failed(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic {
    let partitions =
        topic.partition_indexes.into_iter().map(|partition_index| OffsetFetchResponsePartition {
            partition_index,
            committed_offset: -1,
            committed_leader_epoch: -1,
            metadata: Some(String::new()),
            error_code: code.code(),
            ..Default::default()
        });
    OffsetFetchResponseTopic { name: topic.name, partitions: partitions.collect(), ..Default::default() }
}
