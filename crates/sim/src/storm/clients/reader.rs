//! Consumers. Each reads every partition from its start, from leaders or followers, and either all records or
//! the committed ones.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_kafka_wire::messages::fetch_response::PartitionData;
use tailrace_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use tailrace_kafka_wire::messages::{FetchRequest, ListOffsetsRequest};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, TopicPartition};

use super::client::{Client, below, code, index, pause};
use crate::history::{History as Partitions, Seen};
use crate::storm::site::{COMPACTED_TOPIC, DATA_TOPIC, Keeps, OLD_TOPIC, OUT_TOPIC, topic_partition};

const FETCH: i16 = 12;
const FETCH_BYTES: i32 = 64 << 10;
const LIST_OFFSETS: i16 = 6;

/// The timestamp that asks for the log start of a partition.
const EARLIEST: i64 = -2;

/// The longest time that a node waits for more records.
const WAIT_MS: i32 = 100;

/// What a consumer reads, and from which replicas.
#[derive(Clone, Copy)]
pub(super) struct Taste {
    /// Only committed records.
    pub(super) committed: bool,
    /// From any replica.
    pub(super) follows: bool,
    /// Followers answer too, so the client cannot tell whether the leader answered.
    pub(super) followers_answer: bool,
}

/// A consumer's position.
#[derive(Clone, Copy)]
struct Position {
    next: Offset,
    /// The newest epoch that it has read.
    epoch: LeaderEpoch,
}

pub(super) async fn run(mut client: Client, taste: Taste) {
    let all = [(DATA_TOPIC, 0), (DATA_TOPIC, 1), (OUT_TOPIC, 0), (OLD_TOPIC, 0), (COMPACTED_TOPIC, 0)];
    let begin = Position { next: Offset(0), epoch: LeaderEpoch::UNKNOWN };
    let mut positions = all.map(|(topic, number)| (topic_partition(topic, PartitionId(number)), begin));
    loop {
        pause(60).await;
        if below(20) == 0 {
            client.refresh().await;
        }
        let (partition, position) = &mut positions[index(all.len())];
        *position = poll(&mut client, partition, *position, taste).await;
    }
}

/// Fetches once. Returns the next position.
async fn poll(client: &mut Client, id: &TopicPartition, at: Position, taste: Taste) -> Position {
    let Some((leader, epoch)) = client.leader(id).await else { return at };
    let (from, has_read) = (at.next, at.epoch);
    let replicas = client.replicas(id);
    let asked = if taste.follows && !replicas.is_empty() && below(10) < 7 {
        let node = replicas[index(replicas.len())];
        Asked { node, from, epoch: None, has_read, committed: taste.committed }
    } else {
        Asked { node: leader, from, epoch: Some(epoch), has_read, committed: taste.committed }
    };
    match asked.fetch(client, id).await {
        Some(fetched) => {
            if let (Some(epoch), false) = (asked.epoch, taste.followers_answer) {
                // Only a leader answers, and it leads in this epoch. Otherwise it would have refused.
                let mut history = client.history.lock();
                let told = history.partitions.told(id, epoch, fetched.high_watermark, fetched.last_stable);
                history.check(told);
            }
            take(client, &asked, id, &fetched)
        }
        None => {
            client.refresh().await;
            if client.keeps(id) != Keeps::Young {
                return at;
            }
            let begins = beginning(client, id).await;
            Position { next: begins.map_or(from, |begins| begins.max(from)), ..at }
        }
    }
}

/// Returns the log start of a partition, as its leader reports it.
async fn beginning(client: &mut Client, id: &TopicPartition) -> Option<Offset> {
    let (leader, epoch) = client.leader(id).await?;
    let partition = ListOffsetsPartition {
        partition_index: id.partition.0,
        current_leader_epoch: epoch.get(),
        timestamp: EARLIEST,
        ..Default::default()
    };
    let (name, partitions) = (id.topic.as_str().to_owned(), vec![partition]);
    let topic = ListOffsetsTopic { name, partitions, ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let answer = client.ask(leader, LIST_OFFSETS, &request).await?;
    let partition = answer.topics.first()?.partitions.first()?;
    (code(partition.error_code) == ErrorCode::None).then_some(Offset(partition.offset))
}

/// The parameters of a fetch, and the node it is sent to.
pub(super) struct Asked {
    pub(super) node: u8,
    pub(super) from: Offset,
    /// `None` if it may be sent to a follower.
    pub(super) epoch: Option<LeaderEpoch>,
    /// The newest epoch that the reader has read.
    pub(super) has_read: LeaderEpoch,
    /// Only committed records.
    pub(super) committed: bool,
}

/// What a node answered.
pub(super) struct Fetched {
    pub(super) bytes: Bytes,
    high_watermark: Offset,
    last_stable: Offset,
    /// Aborted transactions, as producer and first offset.
    aborted: Vec<(i64, Offset)>,
}

impl Asked {
    pub(super) async fn fetch(&self, client: &mut Client, id: &TopicPartition) -> Option<Fetched> {
        let partition = FetchPartition {
            partition: id.partition.0,
            current_leader_epoch: self.epoch.map_or(-1, LeaderEpoch::get),
            fetch_offset: self.from.get(),
            partition_max_bytes: FETCH_BYTES,
            ..FetchPartition::default()
        };
        let topic = id.topic.as_str().to_owned();
        let request = FetchRequest {
            max_wait_ms: WAIT_MS,
            min_bytes: 1,
            isolation_level: i8::from(self.committed),
            topics: vec![FetchTopic { topic, partitions: vec![partition], ..FetchTopic::default() }],
            ..FetchRequest::default()
        };
        let answer = client.ask(self.node, FETCH, &request).await?;
        let partition = answer.responses.first()?.partitions.first()?.clone();
        match code(partition.error_code) {
            ErrorCode::None => Some(Fetched::of(partition)),
            // Nothing is deleted, and everything read is committed. A deposed leader that does not know yet
            // may lack what a later leader has written and another replica has returned, so its epoch is
            // checked.
            ErrorCode::OffsetOutOfRange
                if self.epoch.is_some_and(|epoch| epoch >= self.has_read)
                    && client.keeps(id) != Keeps::Young =>
            {
                let from = self.from;
                client.history.lock().found(format!("{id}: {from} is out of range for the leader"));
                None
            }
            _ => None,
        }
    }
}

impl Fetched {
    fn of(partition: PartitionData) -> Self {
        let aborted = partition.aborted_transactions.unwrap_or_default();
        Self {
            bytes: match partition.records {
                Records::Bytes(bytes) => bytes,
                _ => Bytes::new(),
            },
            high_watermark: Offset(partition.high_watermark),
            last_stable: Offset(partition.last_stable_offset),
            aborted: aborted.iter().map(|one| (one.producer_id, Offset(one.first_offset))).collect(),
        }
    }

    /// Returns a filter that hides aborted records, as clients do.
    pub(super) fn hiding(&self) -> Hiding {
        Hiding::new(self.aborted.clone())
    }
}

fn take(client: &Client, asked: &Asked, id: &TopicPartition, fetched: &Fetched) -> Position {
    let is_compacted = client.keeps(id).is_compacted();
    let mut history = client.history.lock();
    if asked.epoch.is_none() && !fetched.bytes.is_empty() {
        history.count("a random replica answered a fetch");
    }
    let batches = match Partitions::parse(&fetched.bytes, asked.from, is_compacted) {
        Ok(batches) => batches,
        Err(anomaly) => {
            history.found(format!("{id} of node {}: {anomaly}", asked.node));
            return Position { next: asked.from, epoch: asked.has_read };
        }
    };
    let (mut at, mut hiding) = (Position { next: asked.from, epoch: asked.has_read }, fetched.hiding());
    for (base, seen) in batches {
        at = Position { next: seen.next, epoch: at.epoch.max(seen.epoch) };
        let is_shown = hiding.shows(&seen);
        if is_compacted && seen.is_rewritten() {
            continue;
        }
        let saw = history.partitions.saw(id, base, &seen, false).map(drop);
        history.check(saw);
        if !asked.committed {
            continue;
        }
        if is_shown {
            let fits = history.partitions.saw_committed(id, base, &seen);
            history.check(fits);
        } else if !seen.is_control {
            history.count("a reader skipped an aborted batch");
        }
    }
    at
}

/// A filter of the records of aborted transactions, as clients apply it.
pub(in crate::storm) struct Hiding {
    aborted: BTreeMap<Offset, i64>,
    hidden: BTreeSet<i64>,
}

impl Hiding {
    /// Takes producers, and the first offset of each aborted transaction.
    pub(in crate::storm) fn new(aborted: Vec<(i64, Offset)>) -> Self {
        let aborted = aborted.into_iter().map(|(producer, first)| (first, producer)).collect();
        Self { aborted, hidden: BTreeSet::new() }
    }

    /// Reports whether the next batch is shown to readers of committed records.
    pub(in crate::storm) fn shows(&mut self, seen: &Seen) -> bool {
        let later = self.aborted.split_off(&seen.next);
        self.hidden.extend(std::mem::replace(&mut self.aborted, later).into_values());
        if seen.is_control {
            self.hidden.remove(&seen.producer);
            return false;
        }
        !(seen.is_transactional && self.hidden.contains(&seen.producer))
    }
}
