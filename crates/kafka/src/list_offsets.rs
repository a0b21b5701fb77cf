//! ListOffsets (2): finds the offset for a time, or for a name such as "earliest".
//!
//! Lookups by time read the disk and decompress batches. The lookups of one request run one after the other,
//! and later requests are decided meanwhile. A client that asks for hundreds of partitions therefore takes no
//! more threads than one that asks for one.

use std::collections::HashSet;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use tailrace_kafka_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::{claimed_epoch, epoch_code, lookup_code};
use crate::fetch::READ_COMMITTED;
use crate::lookup::online_by_name;
use tailrace_node::partitions::{Isolation, Lookups, PartitionHandle, TopicTable};

/// First version whose answers have leader epochs.
const EPOCHS_FROM: i16 = 4;

/// The meaning of the field `timestamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedOffset {
    Latest,
    /// The log start. The start of the local log (KIP-405) is the same, because there is no tiered storage.
    Earliest,
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The end of tiered storage, or the start of what is still to be uploaded (KIP-1005, KIP-1023). There is
    /// none.
    Tiered,
    AtOrAfter(TimestampMs),
}

impl WantedOffset {
    /// Parses the field. `None` if the version does not know this special value.
    fn from_timestamp(timestamp: i64, version: i16) -> Option<Self> {
        match timestamp {
            0.. => Some(Self::AtOrAfter(TimestampMs(timestamp))),
            -1 => Some(Self::Latest),
            -2 => Some(Self::Earliest),
            -3 if version >= 7 => Some(Self::MaxTimestamp),
            -4 if version >= 8 => Some(Self::Earliest),
            -5 if version >= 9 => Some(Self::Tiered),
            -6 if version >= 11 => Some(Self::Tiered),
            _ => None,
        }
    }
}

/// A lookup that reads the disk, and the place of its answer.
struct Lookup {
    place: (usize, usize),
    handle: Arc<PartitionHandle>,
    wanted: WantedOffset,
    upto: Offset,
}

/// A found offset, with its timestamp and leader epoch.
type FoundOffset = (Offset, TimestampMs, LeaderEpoch);

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: ListOffsetsRequest = decode(&context, reader)?;
    let version = context.version();
    let committed_only = request.isolation_level == READ_COMMITTED;
    let duplicates = duplicates(&request);
    let table = Arc::clone(&context.node().topics());
    let rights = context.rights();
    let mut lookups = Vec::new();
    let mut answered = HashSet::new();
    let mut topics: Vec<ListOffsetsTopicResponse> = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        if let Err(code) = rights.topic(Operation::Describe, &topic.name) {
            partitions.extend(topic.partitions.iter().map(|wanted| refused(wanted.partition_index, code)));
            topics.push(ListOffsetsTopicResponse { name: topic.name, partitions, ..Default::default() });
            continue;
        }
        for wanted in &topic.partitions {
            let key = (topic.name.clone(), wanted.partition_index);
            let answer = if !duplicates.contains(&key) {
                let place = (topics.len(), partitions.len());
                look(&table, &topic.name, wanted, version, committed_only).map(|look| match look {
                    Look::Found(found) => response(wanted.partition_index, Some(found), version),
                    Look::Nothing => response(wanted.partition_index, None, version),
                    Look::OnDisk { handle, wanted: what, upto } => {
                        lookups.push(Lookup { place, handle, wanted: what, upto });
                        response(wanted.partition_index, None, version)
                    }
                })
            } else if answered.insert(key) {
                Err(ErrorCode::InvalidRequest)
            } else {
                continue;
            };
            partitions.push(answer.unwrap_or_else(|code| refused(wanted.partition_index, code)));
        }
        topics.push(ListOffsetsTopicResponse { name: topic.name, partitions, ..Default::default() });
    }
    drop(rights);
    let mut answer = ListOffsetsResponse { topics, ..Default::default() };
    if lookups.is_empty() {
        return Ok(Decided::Reply(context.reply(answer)?));
    }
    let node = Arc::clone(context.node());
    Ok(answer_later(context, async move {
        for Lookup { place, handle, wanted, upto } in lookups {
            let found = look_up(node.lookups(), &handle, wanted, upto).await;
            let slot = &mut answer.topics[place.0].partitions[place.1];
            let index = slot.partition_index;
            *slot = match found {
                Ok(found) => response(index, found, version),
                Err(code) => refused(index, code),
            };
        }
        answer
    }))
}

/// Returns the partitions that appear more than once. It is unclear which entry is meant.
fn duplicates(request: &ListOffsetsRequest) -> HashSet<(String, i32)> {
    let mut seen = HashSet::new();
    let all = request.topics.iter().flat_map(|t| t.partitions.iter().map(|p| (&t.name, p.partition_index)));
    let repeated = all.filter(|partition| !seen.insert(*partition));
    repeated.map(|(name, index)| (name.clone(), index)).collect()
}

enum Look {
    Found(FoundOffset),
    Nothing,
    OnDisk { handle: Arc<PartitionHandle>, wanted: WantedOffset, upto: Offset },
}

fn look(
    table: &TopicTable,
    topic: &str,
    partition: &ListOffsetsPartition,
    version: i16,
    committed_only: bool,
) -> Result<Look, ErrorCode> {
    let wanted =
        WantedOffset::from_timestamp(partition.timestamp, version).ok_or(ErrorCode::UnsupportedVersion)?;
    let handle = online_by_name(table, topic, partition.partition_index)?;
    handle.check_epoch(claimed_epoch(partition.current_leader_epoch)).map_err(epoch_code)?;
    let bounds = handle.bounds();
    let upto = bounds.end(Isolation::of(committed_only));
    Ok(match wanted {
        WantedOffset::Latest => Look::Found((upto, TimestampMs::NONE, handle.epoch_at(upto))),
        WantedOffset::Earliest => {
            let start = bounds.log_start;
            Look::Found((start, TimestampMs::NONE, handle.epoch_at(start)))
        }
        WantedOffset::Tiered => Look::Nothing,
        WantedOffset::MaxTimestamp | WantedOffset::AtOrAfter(_) => Look::OnDisk { handle, wanted, upto },
    })
}

async fn look_up(
    lookups: &Lookups,
    handle: &Arc<PartitionHandle>,
    wanted: WantedOffset,
    upto: Offset,
) -> Result<Option<FoundOffset>, ErrorCode> {
    let found = match wanted {
        WantedOffset::AtOrAfter(time) => lookups.offset_for_time(handle, time, upto).await,
        _ => lookups.max_timestamp(handle, upto).await,
    };
    found.map_err(|failure| lookup_code(&failure))
}

fn response(index: i32, found: Option<FoundOffset>, version: i16) -> ListOffsetsPartitionResponse {
    let (offset, timestamp, epoch) = found.unwrap_or((Offset(-1), TimestampMs::NONE, LeaderEpoch::UNKNOWN));
    ListOffsetsPartitionResponse {
        partition_index: index,
        timestamp: timestamp.0,
        offset: offset.get(),
        leader_epoch: if version >= EPOCHS_FROM { epoch.get() } else { LeaderEpoch::UNKNOWN.get() },
        ..Default::default()
    }
}

fn refused(index: i32, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse { partition_index: index, error_code: code.code(), ..Default::default() }
}
