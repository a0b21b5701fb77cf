//! Fetches records. One request is in flight per node, and the next one is sent before the records of the
//! last are decoded.
//!
//! Fetch sessions are not used: they save bytes for consumers of many idle partitions, and this one ends
//! soon.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_cli::failure::{Failure, note};
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_kafka_wire::messages::fetch_response::{AbortedTransaction, PartitionData};
use tailrace_kafka_wire::messages::{FetchRequest, FetchResponse};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::split_batches;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::range::Range;
use crate::client::{ClientError, Cluster, OffsetQuery, Topic, check, find_topic, list_offsets};

/// First version that names topics by id (KIP-516).
const VERSION_WITH_IDS: i16 = 13;
/// How long the server may hold an empty fetch.
const WAIT_MAX_MS: i32 = 500;
/// Wait before a failed fetch is retried.
const RETRY_WAIT: Duration = Duration::from_millis(100);

/// Options of each fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchRules {
    pub(super) read_committed: bool,
    pub(super) bytes_max: i32,
}

/// Record batches of one partition, back to back.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) partition: i32,
    /// The wanted offsets: a batch may start before and end after them.
    pub(super) range: Range,
    pub(super) batches: Bytes,
    pub(super) aborted: Vec<AbortedTransaction>,
    /// What is wrong after the batches, if no further batch can be decoded.
    pub(super) damage: Option<Damage>,
}

/// Records that were not received.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) what: String,
    /// Their offsets, the end exclusive, if reading can go on after them.
    pub(super) offsets: Option<(i64, i64)>,
}

/// The message about a batch that cannot be read.
pub(super) fn damaged(topic: &str, partition: i32, offset: i64, reason: &dyn Display) -> String {
    format!("{topic}-{partition} is damaged at offset {offset}: {reason}")
}

struct Answered {
    node: i32,
    partitions: Vec<i32>,
    result: Result<FetchResponse, ClientError>,
}

/// Fetches ranges of offsets; see the module.
pub(super) struct Fetcher {
    cluster: Cluster,
    topic: Topic,
    rules: FetchRules,
    /// The ranges still to fetch. `from` is the position.
    ranges: BTreeMap<i32, Range>,
    /// Nodes with a fetch in flight.
    busy: Vec<i32>,
    requests: JoinSet<Answered>,
    /// The partition to put first in the next fetch, so that one busy partition does not starve the others.
    next_partition: i32,
    refresh_at: Option<Instant>,
    failing_since: Option<Instant>,
}

impl Fetcher {
    pub(super) fn new(
        cluster: Cluster,
        topic: Topic,
        rules: FetchRules,
        ranges: BTreeMap<i32, Range>,
    ) -> Self {
        Self {
            cluster,
            topic,
            rules,
            ranges,
            busy: Vec::new(),
            requests: JoinSet::new(),
            next_partition: 0,
            refresh_at: None,
            failing_since: None,
        }
    }

    /// Fetches until all ranges are complete, or the receiver is gone.
    pub(super) async fn run(mut self, chunks: mpsc::Sender<Chunk>) -> Result<(), Failure> {
        self.drop_finished();
        while !self.ranges.is_empty() {
            if self.refresh_at.is_some_and(|at| at <= Instant::now()) {
                self.refresh().await?;
            }
            self.fetch_from_idle_nodes().await?;
            let wake = self.refresh_at.unwrap_or_else(|| Instant::now() + RETRY_WAIT);
            tokio::select! {
                Some(answered) = self.requests.join_next(), if !self.requests.is_empty() => {
                    let Ok(answered) = answered else { continue };
                    let ready = self.take_answer(answered).await?;
                    self.drop_finished();
                    self.fetch_from_idle_nodes().await?;
                    for chunk in ready {
                        if chunks.send(chunk).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                () = tokio::time::sleep_until(wake.into()),
                    if self.requests.is_empty() || self.refresh_at.is_some() => {}
                () = chunks.closed() => return Ok(()),
            }
        }
        Ok(())
    }

    fn drop_finished(&mut self) {
        self.ranges.retain(|_, range| range.until.is_none_or(|until| range.from < until));
    }

    async fn refresh(&mut self) -> Result<(), ClientError> {
        self.refresh_at = None;
        match find_topic(&mut self.cluster, &self.topic.name).await {
            Ok(topic) => {
                self.topic = topic;
                Ok(())
            }
            Err(error) => self.try_later(error),
        }
    }

    /// Schedules a refresh of the metadata. Fails if the error is final, or fetches have failed for too long.
    fn try_later(&mut self, error: ClientError) -> Result<(), ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if !error.is_retriable() || since.elapsed() >= self.cluster.timeout() {
            return Err(error);
        }
        self.refresh_at.get_or_insert_with(|| Instant::now() + RETRY_WAIT);
        Ok(())
    }

    async fn fetch_from_idle_nodes(&mut self) -> Result<(), ClientError> {
        if self.refresh_at.is_some() {
            return Ok(());
        }
        let mut by_node: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut leaderless = false;
        for &partition in self.ranges.keys() {
            match self.topic.leader(partition) {
                Some(leader) => by_node.entry(leader).or_default().push(partition),
                None => leaderless = true,
            }
        }
        if leaderless {
            self.try_later(ClientError::NoNode(-1))?;
        }
        by_node.retain(|node, _| !self.busy.contains(node));
        for (node, mut partitions) in by_node {
            let first = partitions.partition_point(|&partition| partition < self.next_partition);
            let count = partitions.len();
            partitions.rotate_left(first % count);
            self.next_partition = partitions.get(1).copied().unwrap_or(0);
            self.fetch(node, partitions).await?;
        }
        Ok(())
    }

    async fn fetch(&mut self, node: i32, partitions: Vec<i32>) -> Result<(), ClientError> {
        let connection = match self.cluster.node(node).await {
            Ok(connection) => connection,
            Err(error) => return self.try_later(error),
        };
        let newest = if self.topic.id == [0; 16] { VERSION_WITH_IDS - 1 } else { i16::MAX };
        let version = connection.version_up_to::<FetchRequest>(newest)?;
        match connection.begin(&self.request(&partitions), version).await {
            Ok(pending) => {
                self.busy.push(node);
                self.requests.spawn(async move {
                    let result = pending.answer().await;
                    Answered { node, partitions, result }
                });
                Ok(())
            }
            Err(error) => self.try_later(error),
        }
    }

    fn request(&self, partitions: &[i32]) -> FetchRequest {
        let wanted = partitions.iter().filter_map(|&partition| {
            self.ranges.get(&partition).map(|range| FetchPartition {
                partition,
                fetch_offset: range.from,
                partition_max_bytes: self.rules.bytes_max,
                ..Default::default()
            })
        });
        let topic = FetchTopic {
            topic: self.topic.name.clone(),
            topic_id: self.topic.id,
            partitions: wanted.collect(),
            ..Default::default()
        };
        FetchRequest {
            max_wait_ms: WAIT_MAX_MS,
            min_bytes: 1,
            max_bytes: self.rules.bytes_max,
            isolation_level: i8::from(self.rules.read_committed),
            session_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        }
    }

    async fn take_answer(&mut self, answered: Answered) -> Result<Vec<Chunk>, Failure> {
        self.busy.retain(|&node| node != answered.node);
        let response = match answered.result {
            Ok(response) => response,
            Err(error) => {
                self.try_later(error)?;
                return Ok(Vec::new());
            }
        };
        if let Err(error) = check(response.error_code, None, || "cannot fetch".to_owned()) {
            self.try_later(error)?;
            return Ok(Vec::new());
        }
        let mut chunks = Vec::new();
        for partition in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            if answered.partitions.contains(&partition.partition_index) {
                chunks.extend(self.take_partition(partition).await?);
            }
        }
        Ok(chunks)
    }

    async fn take_partition(&mut self, data: PartitionData) -> Result<Option<Chunk>, Failure> {
        let partition = data.partition_index;
        if ErrorCode::from_code(data.error_code) == Some(ErrorCode::OffsetOutOfRange) {
            self.catch_up(partition).await?;
            return Ok(None);
        }
        if ErrorCode::from_code(data.error_code) == Some(ErrorCode::CorruptMessage) {
            return Ok(self.take_corrupt(&data));
        }
        let from = self.ranges.get(&partition).map_or(0, |range| range.from);
        let what = || format!("cannot fetch from {}-{partition} at offset {from}", self.topic.name);
        if let Err(error) = check(data.error_code, None, what) {
            self.try_later(error)?;
            return Ok(None);
        }
        self.failing_since = None;
        let Some(range) = self.ranges.get_mut(&partition) else { return Ok(None) };
        let Records::Bytes(mut batches) = data.records else { return Ok(None) };
        let wanted = *range;
        let (mut next, mut damage) = (range.from, None);
        let mut split = split_batches(&batches);
        for batch in &mut split {
            match batch {
                Ok((header, _)) => next = next.max(header.next_offset().0),
                Err(error) => {
                    let what = damaged(&self.topic.name, partition, next, &error);
                    damage = Some(Damage { what, offsets: None });
                }
            }
        }
        let whole = split.position();
        batches.truncate(whole);
        range.from = next;
        if next == wanted.from && damage.is_none() {
            return Ok(None);
        }
        let aborted = data.aborted_transactions.unwrap_or_default();
        Ok(Some(Chunk { partition, range: wanted, batches, aborted, damage }))
    }

    /// Handles records that the server itself cannot read and no replica can restore. tailrace reports the
    /// range of the damage. With other servers it is found offset by offset.
    fn take_corrupt(&mut self, data: &PartitionData) -> Option<Chunk> {
        self.failing_since = None;
        let partition = data.partition_index;
        let range = self.ranges.get_mut(&partition)?;
        let (wanted, from) = (*range, range.from);
        let end = data.diverging_epoch.end_offset.max(from.saturating_add(1));
        let end = range.until.map_or(end, |until| end.min(until));
        range.from = end;
        let reason = "the server has no whole copy of it (CORRUPT_MESSAGE)";
        let what = damaged(&self.topic.name, partition, from, &reason);
        let damage = Some(Damage { what, offsets: Some((from, end)) });
        Some(Chunk { partition, range: wanted, batches: Bytes::new(), aborted: Vec::new(), damage })
    }

    /// Handles records at the position that were deleted meanwhile: goes on with the first record that is
    /// left, and prints a note.
    async fn catch_up(&mut self, partition: i32) -> Result<(), Failure> {
        let offsets =
            list_offsets(&mut self.cluster, &self.topic, &[partition], OffsetQuery::Earliest, false).await?;
        let earliest = offsets.get(&partition).copied().unwrap_or(0);
        let Some(range) = self.ranges.get_mut(&partition) else { return Ok(()) };
        if earliest <= range.from {
            let (topic, from) = (&self.topic.name, range.from);
            return Err(
                format!("{topic}-{partition} no longer has offset {from}: its log was truncated").into()
            );
        }
        let topic = &self.topic.name;
        note(&format!(
            "{topic}-{partition}: offsets {} to {earliest} were deleted in the meantime",
            range.from
        ));
        range.from = earliest;
        Ok(())
    }
}
