//! The encoding of the table of producers, also as a section of a checkpoint. docs/format.md describes both.
//! The log adds the checksum.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use tailrace_log::{PRODUCERS, SNAPSHOT_BYTES_MAX, Sections};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use crate::aborted::{ABORTED_TRANSACTIONS_MAX, AbortedTransaction, AbortedTransactions};
use crate::producers::{
    BATCHES_REMEMBERED, NO_COORDINATOR_EPOCH, PRODUCERS_MAX, ProducerState, Producers, RememberedBatch,
};

/// Version 1 has no transactions, and version 2 none whose marker may still be truncated. The oldest
/// sufficient version is written.
const VERSION: u16 = 3;
const TRANSACTIONS_FROM: u16 = 2;
const DECIDED_FROM: u16 = 3;

/// Version of the section. The table in it starts with its own version.
const SECTION_VERSION: u32 = 1;

/// No open transaction.
const NONE: i64 = -1;

const BATCH_BYTES: usize = 32;
const PRODUCER_BYTES: usize = 31;
const ABORTED_BYTES: usize = 32;

const _: () = assert!(
    10 + PRODUCERS_MAX * (PRODUCER_BYTES + BATCHES_REMEMBERED * BATCH_BYTES)
        + ABORTED_TRANSACTIONS_MAX * ABORTED_BYTES
        <= SNAPSHOT_BYTES_MAX,
    "the log takes the largest snapshot"
);

/// The reason why a snapshot cannot be read. The caller then rebuilds the table from the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Fewer bytes than its counts announce.
    #[error("the producer snapshot ends early")]
    Truncated,
    /// Written by a newer release.
    #[error("the producer snapshot has version {found}, newest known is {VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// Aborted transactions that are not in the order of their markers.
    #[error("the aborted transactions of the producer snapshot are out of order")]
    Disorder,
    /// More batches of one producer than the limit, or batches that are not in the order of their offsets.
    #[error("the producer snapshot has impossible batches of producer {producer}")]
    Batches {
        /// The producer.
        producer: ProducerId,
    },
}

impl From<TryGetError> for SnapshotError {
    fn from(_: TryGetError) -> Self {
        Self::Truncated
    }
}

impl Producers {
    /// Encodes the table.
    pub fn snapshot(&self) -> Bytes {
        let producers = self.len() * (PRODUCER_BYTES + BATCHES_REMEMBERED * BATCH_BYTES);
        let mut out = BytesMut::with_capacity(10 + producers + self.aborted().len() * ABORTED_BYTES);
        out.put_u16(if self.decided().is_empty() { TRANSACTIONS_FROM } else { DECIDED_FROM });
        put_count(&mut out, self.len());
        for (id, state) in self.iter() {
            put_producer(&mut out, id, state);
        }
        put_count(&mut out, self.aborted().len());
        for transaction in self.aborted().iter() {
            out.put_i64(transaction.producer_id.get());
            out.put_i64(transaction.first_offset.get());
            out.put_i64(transaction.last_offset.get());
            out.put_i64(transaction.last_stable_offset.get());
        }
        if !self.decided().is_empty() {
            put_count(&mut out, self.decided().len());
            for (first, marker) in self.decided() {
                out.put_i64(first.get());
                out.put_i64(marker.get());
            }
        }
        out.freeze()
    }

    /// Returns the table as a section of a checkpoint.
    pub(crate) fn to_sections(&self) -> Sections {
        Sections::of(PRODUCERS, SECTION_VERSION, self.snapshot())
    }

    /// Decodes what [`Producers::to_sections`] wrote. `None` if the section is missing or of a newer version.
    pub(crate) fn from_sections(sections: &Sections) -> Option<Result<Self, SnapshotError>> {
        table_in(sections).map(|table| Self::from_snapshot(table))
    }

    /// Decodes what [`Producers::snapshot`] wrote, also in earlier releases.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is truncated, out of order, or of a newer version.
    pub fn from_snapshot(mut bytes: &[u8]) -> Result<Self, SnapshotError> {
        let version = bytes.try_get_u16()?;
        if version > VERSION {
            return Err(SnapshotError::Version { found: version });
        }
        let mut by_id = BTreeMap::new();
        for _ in 0..bytes.try_get_u32()? {
            let (id, state) = read_producer(&mut bytes, version)?;
            let in_order = state.batches.iter().is_sorted_by(|a, b| a.last_offset < b.base_offset);
            if state.batches.len() > BATCHES_REMEMBERED || !in_order {
                return Err(SnapshotError::Batches { producer: id });
            }
            by_id.insert(id, state);
        }
        let aborted = if version < TRANSACTIONS_FROM {
            AbortedTransactions::default()
        } else {
            read_aborted(&mut bytes)?
        };
        let mut decided = BTreeMap::new();
        if version >= DECIDED_FROM {
            for _ in 0..bytes.try_get_u32()? {
                decided.insert(Offset(bytes.try_get_i64()?), Offset(bytes.try_get_i64()?));
            }
        }
        Ok(Self::from_parts(by_id, decided, aborted))
    }
}

/// Returns the encoded table of producers, if these sections have it in a version that this build knows.
pub(crate) fn table_in(sections: &Sections) -> Option<&Bytes> {
    let section = sections.get(PRODUCERS).filter(|section| section.version() == SECTION_VERSION)?;
    Some(section.bytes())
}

fn put_count(out: &mut BytesMut, count: usize) {
    out.put_u32(u32::try_from(count).expect("tables are bounded"));
}

fn put_producer(out: &mut BytesMut, id: ProducerId, state: &ProducerState) {
    out.put_i64(id.get());
    out.put_i16(state.epoch.get());
    out.put_i64(state.last_append.0);
    out.put_i32(state.coordinator_epoch);
    out.put_i64(state.current_transaction.map_or(NONE, Offset::get));
    out.put_u8(u8::try_from(state.batches.len()).expect("few batches are remembered"));
    for batch in &state.batches {
        out.put_i32(batch.first_sequence);
        out.put_i32(batch.last_sequence);
        out.put_i64(batch.base_offset.get());
        out.put_i64(batch.last_offset.get());
        out.put_i64(batch.timestamp.0);
    }
}

fn read_producer(bytes: &mut &[u8], version: u16) -> Result<(ProducerId, ProducerState), TryGetError> {
    let id = ProducerId(bytes.try_get_i64()?);
    let epoch = ProducerEpoch(bytes.try_get_i16()?);
    let last_append = TimestampMs(bytes.try_get_i64()?);
    let (coordinator_epoch, current_transaction) = if version < TRANSACTIONS_FROM {
        (NO_COORDINATOR_EPOCH, NONE)
    } else {
        (bytes.try_get_i32()?, bytes.try_get_i64()?)
    };
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
    let current_transaction = (current_transaction >= 0).then_some(Offset(current_transaction));
    Ok((id, ProducerState { epoch, batches, last_append, current_transaction, coordinator_epoch }))
}

fn read_aborted(bytes: &mut &[u8]) -> Result<AbortedTransactions, SnapshotError> {
    let count = bytes.try_get_u32()?;
    let mut all: Vec<AbortedTransaction> = Vec::new();
    for _ in 0..count {
        let transaction = AbortedTransaction {
            producer_id: ProducerId(bytes.try_get_i64()?),
            first_offset: Offset(bytes.try_get_i64()?),
            last_offset: Offset(bytes.try_get_i64()?),
            last_stable_offset: Offset(bytes.try_get_i64()?),
        };
        if all.last().is_some_and(|last| last.last_offset >= transaction.last_offset) {
            return Err(SnapshotError::Disorder);
        }
        all.push(transaction);
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use tailrace_records::{BatchHeader, EndTransactionMarker};

    use super::*;

    /// Producer 1 with a transaction over offsets 0 to 1, whose marker is at offset 2.
    fn decided() -> Producers {
        let mut producers = Producers::default();
        let mut builder = tailrace_records::BatchBuilder::new(tailrace_records::BatchOptions {
            producer_id: ProducerId(1),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            transactional: true,
            ..Default::default()
        });
        for _ in 0..2 {
            builder.push(TimestampMs(1), None, Some(b"v"), &[]).unwrap();
        }
        producers.remember(&BatchHeader::parse(&builder.build()).unwrap(), TimestampMs(1));
        let marker = EndTransactionMarker { committed: false, coordinator_epoch: 3 };
        let (mut header, _) = marker.build(
            ProducerId(1),
            ProducerEpoch(0),
            TimestampMs(1),
            tailrace_records::TimestampType::CreateTime,
        );
        header.base_offset = Offset(2);
        producers.remember_marker(&header, marker, TimestampMs(1));
        producers
    }

    #[test]
    fn a_transaction_whose_marker_may_yet_be_cut_off_is_undecided_after_a_start_too() {
        let mut producers = Producers::from_snapshot(&decided().snapshot()).unwrap();
        assert_eq!(producers, decided());
        producers.commit(Offset(2));
        assert_eq!(producers.first_undecided(), Some(Offset(0)));
        producers.commit(Offset(3));
        assert_eq!(producers.first_undecided(), None);
        let bytes = producers.snapshot();
        assert_eq!(bytes[..2], [0, 2], "the oldest version that can say it");
        assert_eq!(Producers::from_snapshot(&bytes), Ok(producers));
    }
}
