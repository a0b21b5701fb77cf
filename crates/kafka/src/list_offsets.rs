//! ListOffsets (2): from a time, or from a name such as "earliest", to an offset.
//!
//! Lookups by time read the disk, so all of a request's are done together on a worker thread.

use std::collections::HashSet;
use std::sync::Arc;
use tailrace_env::task;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use tailrace_kafka_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use tailrace_types::{LeaderEpoch, Offset, TimestampMs};

use crate::context::Context;
use crate::errors::{claimed_epoch, epoch_code, log_code};
use crate::fetch::READ_COMMITTED;
use crate::lookup::online_by_name;
use tailrace_node::partitions::{Isolation, PartitionHandle, TopicTable};

/// First version whose answers carry leader epochs.
const EPOCHS_FROM: i16 = 4;

/// What the field `timestamp` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedOffset {
    Latest,
    /// The log start. That of the local disk (KIP-405) is the same, as nothing is stored elsewhere.
    Earliest,
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The end of what is stored elsewhere, or the start of what is to be (KIP-1005, KIP-1023): nothing.
    Tiered,
    AtOrAfter(TimestampMs),
}

impl WantedOffset {
    /// `None` if the version does not know this special value.
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

/// An offset that was found.
type FoundOffset = (Offset, TimestampMs, LeaderEpoch);

pub(crate) async fn handle(context: Arc<Context>, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let version = context.version();
    let committed_only = request.isolation_level == READ_COMMITTED;
    let duplicates = duplicates(&request);
    let table = Arc::clone(&context.node().topics());
    let mut lookups = Vec::new();
    let mut answered = HashSet::new();
    let mut topics: Vec<ListOffsetsTopicResponse> = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
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
    for (place, outcome) in on_worker(lookups).await {
        let slot = &mut topics[place.0].partitions[place.1];
        let index = slot.partition_index;
        *slot = match outcome {
            Ok(found) => response(index, found, version),
            Err(code) => refused(index, code),
        };
    }
    ListOffsetsResponse { topics, ..Default::default() }
}

/// Partitions that come more than once: which of the questions is meant?
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

/// The place of an answer, and what was found.
type Outcome = ((usize, usize), Result<Option<FoundOffset>, ErrorCode>);

async fn on_worker(lookups: Vec<Lookup>) -> Vec<Outcome> {
    if lookups.is_empty() {
        return Vec::new();
    }
    let places: Vec<_> = lookups.iter().map(|lookup| lookup.place).collect();
    let work = move || lookups.iter().map(|lookup| (lookup.place, lookup.run())).collect();
    task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "looking up offsets panicked");
        places.into_iter().map(|place| (place, Err(ErrorCode::UnknownServerError))).collect()
    })
}

impl Lookup {
    fn run(&self) -> Result<Option<FoundOffset>, ErrorCode> {
        let log = self.handle.reader.log();
        let found = match self.wanted {
            WantedOffset::AtOrAfter(time) => log.offset_for_time(time, self.upto),
            _ => log.max_timestamp(self.upto),
        };
        found.map_err(|error| {
            tracing::error!(partition = %self.handle.id, %error, "looking up an offset by time failed");
            log_code(&error)
        })
    }
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
