//! Records what clients were told and saw, and judges whether it is consistent.

use std::collections::BTreeMap;

use tailrace_records::{BatchHeader, PREFIX_BYTES, split_batches};
use tailrace_replication::PartitionReader;
use tailrace_types::Offset;

use super::options::GroupReport;
use super::upkeep::Cleanup;
use crate::SimDisk;

/// The identity of a batch for consumers: its producer, its sequence number, and the checksum of its content.
type Identity = (i64, i32, u32);

/// Number of different keys of one producer.
const KEYS: i32 = 7;

/// Returns the key of a producer's batch.
pub(super) fn key(producer: i64, sequence: i32) -> (i64, i32) {
    (producer, sequence % KEYS)
}

#[derive(Debug)]
pub(super) struct History {
    cleanup: Cleanup,
    acknowledged: BTreeMap<i64, Identity>,
    /// The batches that were read, by offset, each with its epoch.
    read: BTreeMap<i64, (Identity, i32)>,
    reads: u64,
    trace: u32,
    /// The highest log start seen on any replica.
    log_start: Offset,
    /// The replicas' log starts at the end of the run.
    last_log_starts: Vec<Offset>,
}

impl History {
    pub(super) fn new(cleanup: Cleanup) -> Self {
        Self {
            cleanup,
            acknowledged: BTreeMap::new(),
            read: BTreeMap::new(),
            reads: 0,
            trace: 0,
            log_start: Offset(0),
            last_log_starts: Vec::new(),
        }
    }

    pub(super) fn acknowledged(&mut self, base: Offset, bytes: &[u8]) {
        if let Ok(header) = BatchHeader::parse(bytes) {
            let identity = identity(&header, bytes);
            self.note(b'a', base.get(), identity);
            self.acknowledged.insert(base.get(), identity);
        }
    }

    /// Returns one past the last offset that some client saw, or was told to be committed. All batches here
    /// have one record.
    pub(super) fn acknowledged_end(&self) -> Offset {
        let last = |offset: Option<&i64>| offset.map_or(0, |last| last + 1);
        let read = self.read.last_key_value().map(|(offset, _)| offset);
        Offset(last(self.acknowledged.last_key_value().map(|(offset, _)| offset)).max(last(read)))
    }

    fn note(&mut self, what: u8, offset: i64, identity: Identity) {
        let mut line = vec![what];
        line.extend(offset.to_le_bytes());
        line.extend(identity.2.to_le_bytes());
        self.trace = crc32c::crc32c_append(self.trace, &line);
    }

    /// Reads everything that is committed on one replica. With `too_far`, reads everything that the replica
    /// holds.
    pub(super) fn read(&mut self, reader: &PartitionReader<SimDisk>, too_far: bool) -> Result<(), String> {
        self.log_start = self.log_start.max(reader.log_start());
        let committed = reader.high_watermark().offset();
        let upto = if too_far { reader.log_end().offset() } else { committed };
        for (header, identity) in self.batches(reader, upto)? {
            let (offset, epoch) = (header.base_offset.get(), header.leader_epoch.get());
            let seen = (identity, epoch);
            match self.read.insert(offset, seen) {
                Some(before) if before != seen => {
                    return Err(format!(
                        "inconsistent-offsets: offset {offset} was {before:?}, now it is {seen:?}"
                    ));
                }
                Some(_) => {}
                None => {
                    self.reads += 1;
                    self.note(b'r', offset, identity);
                }
            }
        }
        Ok(())
    }

    /// Judges one replica at the end of a run.
    pub(super) fn judge(&mut self, reader: &PartitionReader<SimDisk>) -> Result<(), String> {
        let held = self.batches(reader, reader.high_watermark().offset())?;
        self.judge_order(&held)?;
        self.judge_size(reader)?;
        let by_offset: BTreeMap<i64, Identity> =
            held.iter().map(|(header, identity)| (header.base_offset.get(), *identity)).collect();
        let newest: BTreeMap<(i64, i32), i64> =
            by_offset.iter().map(|(offset, identity)| (key(identity.0, identity.1), *offset)).collect();
        let start = reader.log_start().get();
        // Batches below the log start may be gone. With compaction, a batch may also be gone if its key has a
        // later batch.
        let may_be_gone = |offset: i64, identity: &Identity| {
            let later = newest.get(&key(identity.0, identity.1)).is_some_and(|newest| *newest > offset);
            offset < start || (self.cleanup.compacts && !by_offset.contains_key(&offset) && later)
        };
        for (offset, identity) in &self.acknowledged {
            let found = by_offset.get(offset);
            if found != Some(identity) && !may_be_gone(*offset, identity) {
                return Err(format!("lost-write: offset {offset} was {identity:?}, now it is {found:?}"));
            }
        }
        for (offset, (identity, _)) in &self.read {
            if by_offset.get(offset) != Some(identity) && !may_be_gone(*offset, identity) {
                return Err(format!("lost-read: {identity:?} was read at offset {offset} and is gone"));
            }
        }
        self.last_log_starts.push(reader.log_start());
        self.read(reader, false)
    }

    /// Checks that each producer's batches are in order and occur once. The first batches may be gone, and
    /// with compaction also some in between.
    fn judge_order(&self, held: &[(BatchHeader, Identity)]) -> Result<(), String> {
        let trimmed = self.cleanup.retains || self.cleanup.deletes;
        let mut last: BTreeMap<i64, i32> = BTreeMap::new();
        for (header, (producer, sequence, _)) in held {
            let before = last.insert(*producer, *sequence);
            let expected = before.map_or(0, |before| before + 1);
            let gap_is_fine = self.cleanup.compacts || (trimmed && before.is_none());
            if *sequence < expected || (*sequence > expected && !gap_is_fine) {
                let offset = header.base_offset;
                return Err(format!(
                    "duplicate or nonmonotonic-send: producer {producer} at offset {offset}: sequence {sequence}, \
                     expected {expected}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that retention leaves as much as it should, and that nothing else moves the log start.
    fn judge_size(&self, reader: &PartitionReader<SimDisk>) -> Result<(), String> {
        let (start, bytes) = (reader.log_start(), reader.log().size_bytes());
        let Cleanup { retains, compacts, deletes } = self.cleanup;
        if start > Offset(0) && !retains && !deletes {
            return Err(format!("trimmed: the log start is {start}, and nothing asked for that"));
        }
        let kept = self.cleanup.config().retention_bytes.unwrap_or(0);
        if start > Offset(0) && !deletes && !compacts && bytes < kept {
            return Err(format!("trimmed: {bytes} bytes are left, expected {kept} at least"));
        }
        Ok(())
    }

    /// Checks that records that were deleted once are deleted on every replica.
    pub(super) fn judge_log_starts(&self) -> Result<(), String> {
        let behind = self.last_log_starts.iter().any(|start| *start != self.log_start);
        if behind && !self.cleanup.retains {
            let (starts, seen) = (&self.last_log_starts, self.log_start);
            return Err(format!("undeleted: the log starts are {starts:?}, {seen} was seen before"));
        }
        Ok(())
    }

    pub(super) fn report(self, counts: BTreeMap<&'static str, u64>) -> GroupReport {
        let acknowledged = self.acknowledged.len() as u64;
        GroupReport { acknowledged, read: self.reads, counts, trace: self.trace }
    }

    /// Returns the batches with records below `upto`.
    fn batches(
        &self,
        reader: &PartitionReader<SimDisk>,
        upto: Offset,
    ) -> Result<Vec<(BatchHeader, Identity)>, String> {
        let mut found = Vec::new();
        let mut at = reader.log_start();
        loop {
            let slice = match reader.log().read(at, upto, 1 << 20, true) {
                Ok(Some(slice)) => slice,
                Ok(None) => break,
                // An index that made room for a checkpoint must first be rebuilt.
                Err(error) if error.is_no_space() => break,
                Err(error) => return Err(error.to_string()),
            };
            let bytes = slice.read().map_err(|error| error.to_string())?;
            for item in split_batches(&bytes) {
                let (header, batch) = item.map_err(|error| error.to_string())?;
                let is_next =
                    if self.cleanup.compacts { header.base_offset >= at } else { header.base_offset == at };
                if !tailrace_records::verify_crc(batch) || !is_next {
                    return Err(format!("torn: the batch at offset {at} is damaged or missing"));
                }
                at = header.next_offset();
                if header.record_count > 0 {
                    found.push((header, identity(&header, batch)));
                }
            }
        }
        Ok(found)
    }
}

fn identity(header: &BatchHeader, bytes: &[u8]) -> Identity {
    (header.producer_id.get(), header.base_sequence, crc32c::crc32c(&bytes[PREFIX_BYTES..]))
}
