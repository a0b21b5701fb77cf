//! What the leader remembers of idempotent producers, so that a retried batch is stored once.
//!
//! The rules are those of KIP-98 as Kafka's `ProducerStateManager` applies them: the last five batches of a producer
//! are remembered, a repeated one is answered with its first offset, a gap is refused. A producer that is not known
//! (its records expired, or it was silent for longer than `producer.id.expiration.ms`) may begin at any sequence.
//!
//! Deliberately not here: transactions, and any I/O. The table is rebuilt from a snapshot and the headers after it.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tailrace_records::BatchHeader;
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

/// Batches remembered for each producer; as many as a client may have in flight (`max.in.flight.requests.per.connection`).
pub const BATCHES_REMEMBERED: usize = 5;

/// Producers remembered for each partition. Beyond it the one silent for longest is forgotten. One costs about
/// 250 bytes, so a partition's table stays below 16 MiB.
pub const PRODUCERS_MAX: usize = 65_536;

const SNAPSHOT_VERSION: u16 = 1;

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedBatch {
    /// Sequence of its first record.
    pub first_sequence: i32,
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp.
    pub timestamp: TimestampMs,
}

/// One producer as the partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its newest generation seen.
    pub epoch: ProducerEpoch,
    /// Its last batches, oldest first; empty only for a producer that bumped its epoch without records.
    pub batches: VecDeque<RememberedBatch>,
    /// When it last appended, by this node's clock; what expiry counts from.
    pub last_append: TimestampMs,
}

impl ProducerState {
    /// Sequence of the last record appended, -1 if none.
    pub fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |b| b.last_sequence)
    }
}

/// Verdict on a batch, before it is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCheck {
    /// Next in line, or not from an idempotent producer.
    Append,
    /// Already stored: answer with what was stored then.
    Duplicate(RememberedBatch),
}

/// Why a batch of an idempotent producer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// A newer generation of the producer has written: this one is fenced off.
    #[error("producer {producer} has epoch {current}, the batch carries the older {found}")]
    StaleEpoch {
        /// The producer.
        producer: ProducerId,
        /// Its newest generation.
        current: ProducerEpoch,
        /// The batch's.
        found: ProducerEpoch,
    },
    /// Not the next sequence: records between were lost, or come later.
    #[error("producer {producer}: expected sequence {expected}, the batch begins at {found}")]
    OutOfOrder {
        /// The producer.
        producer: ProducerId,
        /// The sequence that would be next.
        expected: i32,
        /// The batch's first.
        found: i32,
    },
}

/// Why a snapshot cannot be read. The caller then rebuilds the table from the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Fewer bytes than the counts in it announce.
    #[error("the producer snapshot ends early")]
    Truncated,
    /// Written by a newer release.
    #[error("the producer snapshot has version {found}, newest known is {SNAPSHOT_VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
}

/// The table of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: BTreeMap<ProducerId, ProducerState>,
}

impl Producers {
    /// Number of producers known.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All producers in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.by_id.iter().map(|(id, state)| (*id, state))
    }

    /// Decides about a batch without changing anything.
    ///
    /// # Errors
    /// [`SequenceError`] if the batch is fenced off or leaves a gap.
    pub fn check(&self, batch: &BatchHeader) -> Result<SequenceCheck, SequenceError> {
        if batch.producer_id.get() < 0 {
            return Ok(SequenceCheck::Append);
        }
        let Some(state) = self.by_id.get(&batch.producer_id) else {
            return Ok(SequenceCheck::Append);
        };
        if batch.producer_epoch < state.epoch {
            return Err(SequenceError::StaleEpoch {
                producer: batch.producer_id,
                current: state.epoch,
                found: batch.producer_epoch,
            });
        }
        if batch.producer_epoch > state.epoch {
            return expect_sequence(batch, 0);
        }
        let repeated = |b: &&RememberedBatch| {
            b.first_sequence == batch.base_sequence && b.last_sequence == batch.last_sequence()
        };
        if let Some(original) = state.batches.iter().find(repeated) {
            return Ok(SequenceCheck::Duplicate(*original));
        }
        if state.batches.is_empty() {
            return Ok(SequenceCheck::Append);
        }
        expect_sequence(batch, sequence_after(state.last_sequence()))
    }

    /// Remembers a batch that was appended (or is read back at start). `now` is when, for expiry.
    pub fn remember(&mut self, batch: &BatchHeader, now: TimestampMs) {
        if batch.producer_id.get() < 0 || batch.attributes.is_control() {
            return;
        }
        if self.by_id.len() >= PRODUCERS_MAX && !self.by_id.contains_key(&batch.producer_id) {
            self.forget_most_silent();
        }
        let state = self.by_id.entry(batch.producer_id).or_insert_with(|| ProducerState {
            epoch: batch.producer_epoch,
            batches: VecDeque::with_capacity(BATCHES_REMEMBERED),
            last_append: now,
        });
        if batch.producer_epoch > state.epoch {
            state.epoch = batch.producer_epoch;
            state.batches.clear();
        }
        if state.batches.len() == BATCHES_REMEMBERED {
            state.batches.pop_front();
        }
        state.batches.push_back(RememberedBatch {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset: batch.base_offset,
            last_offset: batch.last_offset(),
            timestamp: batch.max_timestamp,
        });
        state.last_append = now;
    }

    /// Forgets producers that appended nothing for `silent_ms` milliseconds.
    pub fn expire(&mut self, now: TimestampMs, silent_ms: i64) {
        self.by_id.retain(|_, state| now.since(state.last_append) < silent_ms);
    }

    fn forget_most_silent(&mut self) {
        let oldest = self.by_id.iter().min_by_key(|(_, s)| s.last_append).map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.by_id.remove(&id);
        }
    }

    /// The table as bytes; docs/format.md describes them. The log adds the checksum.
    pub fn snapshot(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(8 + self.by_id.len() * 64);
        out.put_u16(SNAPSHOT_VERSION);
        out.put_u32(u32::try_from(self.by_id.len()).unwrap_or(u32::MAX));
        for (id, state) in &self.by_id {
            out.put_i64(id.get());
            out.put_i16(state.epoch.get());
            out.put_i64(state.last_append.0);
            out.put_u8(u8::try_from(state.batches.len()).unwrap_or(u8::MAX));
            for batch in &state.batches {
                out.put_i32(batch.first_sequence);
                out.put_i32(batch.last_sequence);
                out.put_i64(batch.base_offset.get());
                out.put_i64(batch.last_offset.get());
                out.put_i64(batch.timestamp.0);
            }
        }
        out.freeze()
    }

    /// Reads what [`Producers::snapshot`] wrote.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is cut short or of a newer version.
    pub fn from_snapshot(mut bytes: &[u8]) -> Result<Self, SnapshotError> {
        let version = bytes.try_get_u16().map_err(|_| SnapshotError::Truncated)?;
        if version > SNAPSHOT_VERSION {
            return Err(SnapshotError::Version { found: version });
        }
        let count = bytes.try_get_u32().map_err(|_| SnapshotError::Truncated)?;
        let mut table = Self::default();
        for _ in 0..count {
            let (id, state) = read_producer(&mut bytes).map_err(|_| SnapshotError::Truncated)?;
            table.by_id.insert(id, state);
        }
        Ok(table)
    }
}

fn expect_sequence(batch: &BatchHeader, expected: i32) -> Result<SequenceCheck, SequenceError> {
    if batch.base_sequence == expected {
        Ok(SequenceCheck::Append)
    } else {
        let (producer, found) = (batch.producer_id, batch.base_sequence);
        Err(SequenceError::OutOfOrder { producer, expected, found })
    }
}

/// Sequences run from 0 to `i32::MAX` and begin again at 0.
fn sequence_after(last: i32) -> i32 {
    if last == i32::MAX { 0 } else { last + 1 }
}

fn read_producer(bytes: &mut &[u8]) -> Result<(ProducerId, ProducerState), bytes::TryGetError> {
    let id = ProducerId(bytes.try_get_i64()?);
    let epoch = ProducerEpoch(bytes.try_get_i16()?);
    let last_append = TimestampMs(bytes.try_get_i64()?);
    let count = bytes.try_get_u8()?;
    let mut batches = VecDeque::with_capacity(BATCHES_REMEMBERED);
    for _ in 0..count {
        batches.push_back(RememberedBatch {
            first_sequence: bytes.try_get_i32()?,
            last_sequence: bytes.try_get_i32()?,
            base_offset: Offset(bytes.try_get_i64()?),
            last_offset: Offset(bytes.try_get_i64()?),
            timestamp: TimestampMs(bytes.try_get_i64()?),
        });
    }
    Ok((id, ProducerState { epoch, batches, last_append }))
}
