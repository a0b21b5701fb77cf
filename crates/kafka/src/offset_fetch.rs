//! OffsetFetch (9): returns a group's committed offsets, and from version 8 on those of several groups.

use std::sync::Arc;

use tailrace_coordination::groups::{
    FetchRequest, FetchTopic, FetchedPartition, FetchedTopic, OffsetsEvent, OffsetsReply,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use tailrace_kafka_wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_metadata::TopicRef;
use tailrace_types::TopicId;

use crate::closed::Closed;
use crate::commands::ITEMS_MAX;
use crate::context::{Context, Decided, answer_later, carry_on_aside, decode};
use crate::errors::group_code;
use crate::groups::{PendingGroup, check_topic};

/// First version whose answer has a code for the group. Before, each partition has one.
const GROUP_CODE_FROM: i16 = 2;

/// First version with several groups.
const GROUPS_FROM: i16 = 8;

/// First version that names topics by id.
const IDS_FROM: i16 = 10;

/// Number of groups whose offsets are fetched at the same time. The others follow one by one, as their
/// answers are made.
const GROUPS_AT_ONCE: usize = 4;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: OffsetFetchRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let version = context.version();
    let is_long = match version {
        GROUPS_FROM.. => {
            request.groups.len() > 1 || request.groups.iter().any(|group| group.topics.is_none())
        }
        _ => request.topics.is_none(),
    };
    let decision = {
        let context = Arc::clone(&context);
        async move {
            if version >= GROUPS_FROM { several(context, request).await } else { one(context, request).await }
        }
    };
    // A consumer asks for its own partitions, but a group may have a million.
    if !is_long {
        return decision.await;
    }
    carry_on_aside(Arc::clone(&context.server), Arc::clone(&context.session), decision).await
}

async fn several(context: Arc<Context>, request: OffsetFetchRequest) -> Result<Decided, Closed> {
    let (version, require_stable) = (context.version(), request.require_stable);
    let mut rest = request.groups.into_iter().enumerate();
    let mut pending = Vec::with_capacity(GROUPS_AT_ONCE);
    for (_, group) in rest.by_ref().take(GROUPS_AT_ONCE) {
        let group_id = group.group_id.clone();
        let fetch = fetch_request(group, version, require_stable);
        pending.push((group_id.clone(), ask(&context, group_id, fetch).await));
    }
    Ok(answer_later(Arc::clone(&context), async move {
        let mut groups = Vec::new();
        let mut charges = context.charges();
        let mut pending = pending.into_iter();
        loop {
            let (group_id, fetched) = if let Some((group_id, pending)) = pending.next() {
                (group_id, fetched(&context, pending).await)
            } else if let Some((number, group)) = rest.next() {
                let group_id = group.group_id.clone();
                // Each answer may be longer than its entry in the request.
                let fetched = if number >= ITEMS_MAX || charges.is_full() {
                    Err(ErrorCode::PolicyViolation)
                } else {
                    let fetch = fetch_request(group, version, require_stable);
                    fetched(&context, ask(&context, group_id.clone(), fetch).await).await
                };
                (group_id, fetched)
            } else {
                break;
            };
            charges.add(group_id.len() + fetched.as_ref().map_or(0, bytes_of)).await;
            let group = OffsetFetchResponseGroup { group_id, ..Default::default() };
            groups.push(match fetched {
                Ok(Fetched { topics, refused }) => {
                    let refused = refused.into_iter().map(|(topic, code)| refused_of_group(topic, code));
                    let topics = topics.into_iter().map(topic_of_group).chain(refused).collect();
                    OffsetFetchResponseGroup { topics, ..group }
                }
                Err(code) => OffsetFetchResponseGroup { error_code: code.code(), ..group },
            });
        }
        OffsetFetchResponse { groups, ..Default::default() }
    }))
}

/// Approximate memory of the answer, counted twice: as it is, and encoded.
fn bytes_of(fetched: &Fetched) -> usize {
    const PARTITION_BYTES: usize = 128;
    let of_partition = |partition: &FetchedPartition| {
        let metadata = match &partition.offset {
            Ok(Some(committed)) => committed.metadata.len(),
            _ => 0,
        };
        PARTITION_BYTES + 2 * metadata
    };
    let of_topic = |topic: &FetchedTopic| {
        PARTITION_BYTES + topic.name.len() + topic.partitions.iter().map(of_partition).sum::<usize>()
    };
    let of_refused = |(topic, _): &(FetchTopic, ErrorCode)| PARTITION_BYTES * (1 + topic.partitions.len());
    fetched.topics.iter().map(of_topic).sum::<usize>() + fetched.refused.iter().map(of_refused).sum::<usize>()
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

async fn one(context: Arc<Context>, request: OffsetFetchRequest) -> Result<Decided, Closed> {
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
    let pending = ask(&context, request.group_id, fetch).await;
    Ok(answer_later(Arc::clone(&context), async move {
        match fetched(&context, pending).await {
            Ok(fetched) => {
                context.charges().add(bytes_of(&fetched)).await;
                let refused = fetched.refused.into_iter().map(|(topic, code)| refused_of_one(topic, code));
                let topics = fetched.topics.into_iter().map(topic_of_one).chain(refused).collect();
                OffsetFetchResponse { topics, ..Default::default() }
            }
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

/// A fetch that the coordinator has received.
struct Asked {
    pending: PendingGroup,
    /// All topics were asked for, so those that the client may not see are left out of the answer.
    all: bool,
    /// The topics that were asked for and that the client may not see.
    refused: Vec<(FetchTopic, ErrorCode)>,
}

/// Submits a fetch for the topics that the client may see.
async fn ask(context: &Context, group: String, mut fetch: FetchRequest) -> Result<Asked, ErrorCode> {
    let mut refused = Vec::new();
    {
        let rights = context.rights();
        rights.group(Operation::Describe, &group)?;
        if let Some(topics) = &mut fetch.topics {
            for topic in std::mem::take(topics) {
                match check_topic(context, &rights, Operation::Describe, &topic.topic) {
                    Ok(()) => topics.push(topic),
                    Err(code) => refused.push((topic, code)),
                }
            }
        }
    }
    let all = fetch.topics.is_none();
    let pending = context.submit_offsets(group, OffsetsEvent::Fetch(fetch)).await;
    Ok(Asked { pending, all, refused })
}

/// Offsets of topics, as the coordinator has them, and the topics that are refused.
struct Fetched {
    topics: Vec<FetchedTopic>,
    refused: Vec<(FetchTopic, ErrorCode)>,
}

async fn fetched(context: &Context, asked: Result<Asked, ErrorCode>) -> Result<Fetched, ErrorCode> {
    let Asked { pending, all, refused } = asked?;
    match pending.offsets().await? {
        OffsetsReply::Fetch(Ok(mut topics)) => {
            if all {
                let rights = context.rights();
                topics.retain(|topic| rights.sees_topic(Operation::Describe, &topic.name));
            }
            Ok(Fetched { topics, refused })
        }
        OffsetsReply::Fetch(Err(error)) => Err(group_code(&error)),
        _ => Err(ErrorCode::UnknownServerError),
    }
}

/// Returns the fields of a partition's answer: offset, leader epoch, metadata, code.
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

fn refused_of_group(topic: FetchTopic, code: ErrorCode) -> OffsetFetchResponseTopics {
    let partitions = topic.partitions.into_iter().map(|partition_index| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(String::new()),
        error_code: code.code(),
        ..Default::default()
    });
    let (name, topic_id) = match topic.topic {
        TopicRef::Name(name) => (name, [0; 16]),
        TopicRef::Id(id) => (String::new(), id.0),
    };
    OffsetFetchResponseTopics { name, topic_id, partitions: partitions.collect(), ..Default::default() }
}

fn refused_of_one(topic: FetchTopic, code: ErrorCode) -> OffsetFetchResponseTopic {
    let name = match topic.topic {
        TopicRef::Name(name) => name,
        TopicRef::Id(id) => id.to_string(),
    };
    failed(OffsetFetchRequestTopic { name, partition_indexes: topic.partitions, ..Default::default() }, code)
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
